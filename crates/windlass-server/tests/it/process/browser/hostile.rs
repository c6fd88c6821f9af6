//! text that wants to be markup, in every field a tenant can fill, leaves every page the shape it has with plain text.

use serde_json::{Value, json};
use uuid::Uuid;
use windlass::{Definition, NewJob, NewTrigger, State};
use windlass_server::auth::Role;
use windlass_testing::eventually;

use super::chrome::Chrome;
use super::world::World;

/// Two hundred: the classics, in every quoting, and what breaks out of text, attributes, comments, scripts and styles.
fn hostile() -> Vec<String> {
    let seeds = [
        "<script>alert(1)</script>",
        "\"><script>alert(1)</script>",
        "'><img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        "</title><script>alert(1)</script>",
        "</textarea><script>alert(1)</script>",
        "</pre><h1>x",
        "</td></tr></table><h1>x",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "&lt;script&gt;",
        "&#60;script&#62;",
        "javascript:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "\" onmouseover=\"alert(1)",
        "' autofocus onfocus='alert(1)",
        "`onload=alert(1)",
        "<a href=javascript:alert(1)>x</a>",
        "<base href=//evil.test>",
        "<meta http-equiv=refresh content=0>",
        "<link rel=stylesheet href=//evil.test>",
        "<style>*{display:none}</style>",
        "<iframe srcdoc='<script>alert(1)</script>'>",
        "<form action=//evil.test><input name=a>",
        "<math><mtext></table></math>",
        "<template><script>1</script></template>",
        "{{7*7}}",
        "{% include 'x' %}",
        "${alert(1)}",
        "\\u003cscript\\u003e",
        "<scr\u{0}ipt>",
        "\u{202e}gnitirw\u{202c}",
        "مرحبا <b>",
        "\u{feff}<b>",
        "<b\n>",
        "<details open ontoggle=alert(1)>",
        "<x contenteditable onblur=alert(1)>",
        "%3Cscript%3E",
        "'; drop table jobs; --",
        "../../etc/passwd",
        "\r\nset-cookie: a=b",
        "<noscript><p title=\"</noscript><img src=x>\">",
        "<select><option>",
        "</select>",
        "<plaintext>",
        "<xmp>",
        "<button form=pick name=act value=delete>",
        "a\" data-confirm=\"x",
    ];
    let frames = ["{}", "x{}", "{} y", "[{}]"];
    frames
        .iter()
        .flat_map(|frame| seeds.iter().map(move |seed| frame.replace("{}", seed).replace('\0', "\u{fffd}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_hostile_texts_in_every_field_leave_every_page_its_shape() {
    let texts = hostile();
    assert_eq!(texts.len(), 200);
    let world = World::quiet().await;
    let queue = &world.server.queue;
    queue.define(&Definition::new("unserved")).await.unwrap();
    // Letters only: errors that differ in digits alone are one group.
    let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
    let plain: Vec<String> =
        (0..texts.len()).map(|number| format!("plain {}{}", letter(number / 26), letter(number))).collect();
    let hostile = fill(&world, world.acme, &texts).await;
    let benign = fill(&world, world.globex, &plain).await;

    let chrome = Chrome::open(&world.server.base).await;
    chrome.watch_complaints().await;
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    let mut pairs: Vec<(String, String)> = hostile
        .iter()
        .zip(&benign)
        .map(|(a, b)| (format!("/ui/jobs/{a}"), format!("/ui/jobs/{b}")))
        .collect();
    for same in [
        "/ui/jobs",
        "/ui/jobs?status=canceled",
        "/ui/dead-letters",
        "/ui/triggers",
        "/ui/queues",
        "/ui/tokens",
    ] {
        pairs.push((same.to_owned(), same.to_owned()));
    }
    let different = compare(&chrome, &pairs, world.acme, world.globex).await;
    assert!(
        different.is_empty(),
        "{} of {}: {:#?}",
        different.len(),
        pairs.len(),
        &different[..different.len().min(5)]
    );

    // What is searched stands in the address, in the field and in a chip; nothing is found either way.
    let searched = texts.iter().step_by(5).map(|text| {
        let mut search = "/ui/jobs?q=".to_owned();
        search.extend(text.bytes().map(|byte| format!("%{byte:02X}")));
        (search, "/ui/jobs?q=nothing%20like%20it".to_owned())
    });
    let pairs: Vec<(String, String)> = searched.collect();
    let different = compare(&chrome, &pairs, world.globex, world.globex).await;
    assert!(
        different.is_empty(),
        "{} of {}: {:#?}",
        different.len(),
        pairs.len(),
        &different[..different.len().min(5)]
    );

    // And shown for real, nothing runs and no rule of the content policy is broken.
    chrome.choose(world.acme).await;
    for path in [
        "/ui/jobs",
        "/ui/triggers",
        "/ui/dead-letters",
        "/ui/audit",
        &format!("/ui/jobs/{}", hostile[0]),
        &format!("/ui/jobs/new?from={}", hostile[1]),
    ] {
        chrome.go(path).await;
        chrome.find("main").await;
        assert_eq!(chrome.complaints().await, [""; 0], "{path}");
    }
    chrome.close().await;
    world.end().await;
}

/// One canceled job per text, with the text wherever a tenant can put one; some dead letters and triggers of it too.
async fn fill(world: &World, tenant: Uuid, texts: &[String]) -> Vec<Uuid> {
    let queue = &world.server.queue;
    let mut ids = Vec::new();
    for text in texts {
        let payload = json!({text.as_str(): [text, {"nested": text}]});
        let job = NewJob::new("unserved")
            .tenant(tenant)
            .payload(&payload)
            .tag(text)
            .subject(text, text)
            .correlation_id(text);
        let id = queue.enqueue(&job.dedupe_key(text)).await.unwrap().id;
        queue.cancel(tenant, id).await.unwrap();
        ids.push(id);
    }
    for text in texts.iter().take(20) {
        let dead = NewJob::new("recompute-zeroshot-tags")
            .tenant(tenant)
            .payload(&json!({"provider_id": super::world::PROVIDER, "path_prefix": format!("/say {text}")}));
        let dead = queue.enqueue(&dead).await.unwrap().id;
        eventually("it died", async || {
            queue.job(tenant, dead).await.unwrap().is_some_and(|job| job.status == State::DeadLetter)
        })
        .await;
        let trigger = NewTrigger {
            payload_template: json!({"a": text}),
            ..NewTrigger::event(text, "provider.folder.updated", "unserved")
        };
        queue.create_trigger(tenant, &trigger, text).await.unwrap();
    }
    ids
}

/// Fetches each pair and compares tags and names of attributes, in order. Counts of words differ; shapes must not.
async fn compare(chrome: &Chrome, pairs: &[(String, String)], a: Uuid, b: Uuid) -> Vec<Value> {
    let script = "const [list, a, b, done] = arguments; \
        const shape = e => e.tagName + '[' + [...e.attributes].map(x => x.name).filter(n => n !== 'open' && n !== 'aria-current').sort().join() + '](' + [...e.children].map(shape).join() + ')'; \
        const look = async (path, tenant) => { const r = await fetch(path, {headers: {'x-tenant-id': tenant}}); \
            const main = new DOMParser().parseFromString(await r.text(), 'text/html'); \
            main.querySelectorAll('.chart, #card-wait, time').forEach(e => e.replaceChildren()); return r.status + shape(main.documentElement); }; \
        (async () => { const wrong = []; for (const [x, y] of list) { \
            const [m, n] = await Promise.all([look(x, a), look(y, b)]); \
            if (m !== n) { let i = 0; while (m[i] === n[i]) i++; wrong.push(x + ' at ' + i + ': ' + m.slice(Math.max(0, i - 80), i + 80) + ' <> ' + n.slice(Math.max(0, i - 80), i + 80)); } } \
            done(wrong); })().catch(e => done([String(e)]));";
    let mut different = Vec::new();
    for chunk in pairs.chunks(40) {
        let chunk: Vec<Value> = chunk.iter().map(|(x, y)| json!([x, y])).collect();
        let args = vec![json!(chunk), json!(a.to_string()), json!(b.to_string())];
        let answer = chrome.driver.execute_async(script, args).await.unwrap().json().clone();
        different.extend(answer.as_array().cloned().unwrap_or_else(|| vec![answer]));
    }
    different
}
