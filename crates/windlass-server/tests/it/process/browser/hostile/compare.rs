//! Two pages have the same shape if their elements and the names of their attributes are the same, in order. Texts and values differ.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::process::browser::chrome::Chrome;

/// A page, or the response to a form.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    path: String,
    form: Option<String>,
    tenant: Option<Uuid>,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self { path: path.into(), form: None, tenant: None }
    }

    pub(super) fn post(path: &str, form: String) -> Self {
        Self { path: path.to_owned(), form: Some(form), tenant: None }
    }

    /// As another tenant sees it.
    pub(super) fn of(self, tenant: Uuid) -> Self {
        Self { tenant: Some(tenant), ..self }
    }
}

pub(super) struct Comparison<'a> {
    chrome: &'a Chrome,
    hostile: Uuid,
    benign: Uuid,
    different: Vec<String>,
    compared: usize,
}

/// Reads pages in the browser and returns their shapes. Values that are measured on every read (charts, times, trends) count as
/// one element; a selected row, an open fold, or a group with more jobs in it does not change the shape.
const SHAPES: &str = "const [list, done] = arguments; \
    const idle = ['open', 'aria-current', 'selected', 'data-autohide', 'checked']; \
    const shape = e => e.tagName + '[' + [...e.attributes].map(x => x.name).filter(n => !idle.includes(n)).sort().join() + '](' + [...e.children].map(shape).join() + ')'; \
    const look = async ([path, form, tenant]) => { \
        const options = {headers: {'x-tenant-id': tenant}}; \
        if (form !== null) { options.method = 'POST'; options.body = form + '&acting_for=' + tenant; options.headers['content-type'] = 'application/x-www-form-urlencoded'; } \
        const r = await fetch(path, options); \
        const page = new DOMParser().parseFromString(await r.text(), 'text/html'); \
        page.querySelectorAll('.chart, .trend, #card-wait, time').forEach(e => e.replaceChildren()); \
        page.querySelectorAll('.trend').forEach(e => e.remove()); \
        page.querySelectorAll('tbody p.small a:not(:first-child)').forEach(e => e.remove()); \
        const rows = [...page.querySelectorAll('tbody[data-rows] > tr')].map(shape); \
        const next = page.querySelector('a[rel=next]')?.getAttribute('href') ?? null; \
        return [r.status + shape(page.documentElement), rows, next]; }; \
    (async () => { const answers = []; \
        for (let i = 0; i < list.length; i += 6) answers.push(...await Promise.all(list.slice(i, i + 6).map(look))); \
        done(answers); })().catch(e => done(String(e)));";

/// The result of the browser for one page: its shape, those of its rows, and the address of the next page.
struct Shape {
    page: String,
    rows: Vec<String>,
    next: Option<String>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(chrome: &'a Chrome, hostile: Uuid, benign: Uuid) -> Self {
        Self { chrome, hostile, benign, different: Vec::new(), compared: 0 }
    }

    /// Every page of the hostile tenant compared with one of the other.
    pub(super) async fn all(&mut self, asks: Vec<Ask>, harmless: Ask) {
        let expected = self.shapes(std::slice::from_ref(&harmless), self.benign).await.remove(0);
        let shapes = self.shapes(&asks, self.hostile).await;
        for (ask, shape) in asks.iter().zip(shapes) {
            self.compare(&ask.path, &shape.page, &expected.page);
        }
    }

    /// The same address for both.
    pub(super) async fn same(&mut self, path: &str) {
        self.all(vec![Ask::get(path)], Ask::get(path)).await;
    }

    /// The same list for both, and all of its further pages.
    pub(super) async fn through_pages(&mut self, path: &str) {
        let (mut ours, mut theirs) = (path.to_owned(), path.to_owned());
        loop {
            let hostile = self.shapes(&[Ask::get(ours.as_str())], self.hostile).await.remove(0);
            let benign = self.shapes(&[Ask::get(theirs.as_str())], self.benign).await.remove(0);
            self.compare(&ours, &hostile.page, &benign.page);
            match (hostile.next, benign.next) {
                (Some(next), Some(other)) => (ours, theirs) = (next, other),
                _ => return,
            }
        }
    }

    /// Every row of a table compared with the first one that the other tenant sees there; rows that belong to no tenant are
    /// visible to both.
    pub(super) async fn rows_alike(&mut self, path: &str) {
        let shape = self.shapes(&[Ask::get(path)], self.hostile).await.remove(0);
        let other = self.shapes(&[Ask::get(path)], self.benign).await.remove(0);
        let first = other.rows.first().unwrap_or_else(|| panic!("{path} has no rows")).clone();
        for row in &shape.rows {
            self.compare(path, row, &first);
        }
    }

    fn compare(&mut self, path: &str, shape: &str, expected: &str) {
        self.compared += 1;
        if shape != expected {
            let same = shape.bytes().zip(expected.bytes()).take_while(|(a, b)| a == b).count();
            let near = |text: &str| text.chars().skip(same.saturating_sub(60)).take(140).collect::<String>();
            self.different.push(format!("{path}: {} <> {}", near(shape), near(expected)));
        }
    }

    pub(super) fn assert_none(&self, texts: usize) {
        assert!(self.compared > 15 * texts, "only {} pages were compared", self.compared);
        let few = &self.different[..self.different.len().min(8)];
        assert!(self.different.is_empty(), "{} of {}: {few:#?}", self.different.len(), self.compared);
    }

    async fn shapes(&self, asks: &[Ask], tenant: Uuid) -> Vec<Shape> {
        let mut shapes = Vec::new();
        for chunk in asks.chunks(60) {
            let list: Vec<Value> = chunk
                .iter()
                .map(|ask| json!([ask.path, ask.form, ask.tenant.unwrap_or(tenant).to_string()]))
                .collect();
            let result = self.chrome.driver.execute_async(SHAPES, vec![json!(list)]).await.unwrap();
            let results = result.json().as_array().unwrap_or_else(|| panic!("{}", result.json())).clone();
            shapes.extend(results.iter().map(|result| Shape {
                page: result[0].as_str().unwrap_or_default().to_owned(),
                rows: result[1].as_array().into_iter().flatten().map(ToString::to_string).collect(),
                next: result[2].as_str().map(str::to_owned),
            }));
        }
        shapes
    }
}
