//! text that contains markup, in every field that a user can fill, does not change the structure of any page.
//!
//! Two tenants are filled in the same way, one with hostile texts, one with harmless ones. Every page of the first is compared,
//! tag by tag and attribute by attribute, with the same page of the second.

mod compare;
mod fill;

use windlass_server::auth::Role;
use windlass_testing::sample;

use super::chrome::Chrome;
use super::world::World;
use compare::{Ask, Comparison};
use fill::{Filled, encoded, fill, fill_everyone, report_progress};

/// Two hundred: the well-known ones, in every quoting, and those that break out of text, attributes, comments, scripts and styles.
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
async fn hostile_texts_in_every_field_break_no_page() {
    let texts = hostile();
    assert_eq!(texts.len(), 200);
    let texts = sample(texts, 8);
    let world = World::quiet().await;
    // Letters only: errors that differ only in digits are one group.
    let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
    let plain: Vec<String> =
        (0..texts.len()).map(|number| format!("plain {}{}", letter(number / 26), letter(number))).collect();
    let hostile = fill(&world, world.acme, &texts).await;
    let benign = fill(&world, world.globex, &plain).await;
    let (hostile_all, benign_all) =
        (fill_everyone(&world, "hostile", &texts).await, fill_everyone(&world, "benign", &plain).await);

    let chrome = Chrome::open(&world.server.base).await;
    chrome.watch_complaints().await;
    chrome.sign_in(&world.token(world.acme, Role::SuperAdmin).await).await;
    let mut comparison = Comparison::new(&chrome, world.acme, world.globex);

    // The objects of a tenant: each on its own page, all compared with a harmless one.
    for (name, of, against) in [
        ("/ui/jobs/", &hostile.canceled, benign.canceled[0]),
        ("/ui/jobs/", &hostile.dead, benign.dead[0]),
        ("/ui/jobs/", &hostile.given, benign.given[0]),
        ("/ui/jobs/new?from=", &hostile.canceled, benign.canceled[0]),
        ("/ui/triggers/", &hostile.triggers, benign.triggers[0]),
    ] {
        let asks = of.iter().map(|id| Ask::get(format!("{name}{id}"))).collect();
        comparison.all(asks, Ask::get(format!("{name}{against}"))).await;
    }
    // Objects that belong to no tenant: definitions with their forms, and tenants, each of them opened as well.
    for (name, of, against) in [
        ("/ui/definitions/", &hostile_all.definitions, benign_all.definitions[0]),
        ("/ui/tenants/", &hostile_all.tenants, benign_all.tenants[0]),
    ] {
        let asks = of.iter().map(|id| Ask::get(format!("{name}{id}"))).collect();
        comparison.all(asks, Ask::get(format!("{name}{against}"))).await;
    }
    let form = |set: &str, number: usize| Ask::get(format!("/ui/jobs/new?definition={set}-{number}"));
    comparison.all((0..texts.len()).map(|number| form("hostile", number)).collect(), form("benign", 0)).await;
    let looks = hostile_all.tenants.iter().map(|id| Ask::get("/ui/dead-letters").of(*id)).collect();
    comparison.all(looks, Ask::get("/ui/dead-letters").of(benign_all.tenants[0])).await;

    // The lists of both tenants, page by page, and those over all tenants, row by row.
    for path in ["/ui/jobs?status=canceled", "/ui/jobs?status=dead_letter", "/ui/jobs?status=succeeded"] {
        comparison.through_pages(path).await;
    }
    for from in (0..texts.len()).step_by(50) {
        comparison.same(&format!("/ui/triggers?from={from}")).await;
    }
    for path in ["/ui/queues", "/ui/tokens", "/ui/members", "/ui/audit"] {
        comparison.same(path).await;
    }
    // Each text is a worker of both tenants.
    for from in (0..2 * texts.len()).step_by(100) {
        comparison.rows_alike(&format!("/ui/workers?from={from}")).await;
    }
    for path in ["/ui/definitions", "/ui/overview"] {
        comparison.rows_alike(path).await;
    }
    let find = |set: &str| Ask::get(format!("/ui/tenants?q={set}-"));
    comparison.all(vec![find("hostile")], find("benign")).await;
    let find = |set: &str| Ask::get(format!("/ui/tenants/find?q={set}-"));
    comparison.all(vec![find("hostile")], find("benign")).await;

    form_input_is_escaped(&mut comparison, &texts).await;
    progress_messages_are_escaped(&world, &mut comparison, &texts).await;
    every_group_of_errors(&world, &mut comparison, &hostile, &benign).await;
    comparison.assert_none(texts.len());

    // In a real browser nothing runs, and the content security policy is not violated.
    chrome.choose(world.acme).await;
    let shown = [
        "/ui/jobs".to_owned(),
        "/ui/triggers".to_owned(),
        "/ui/dead-letters".to_owned(),
        "/ui/audit".to_owned(),
        "/ui/members".to_owned(),
        "/ui/tokens".to_owned(),
        "/ui/tenants".to_owned(),
        "/ui/workers".to_owned(),
        "/ui/definitions".to_owned(),
        format!("/ui/jobs/{}", hostile.canceled[0]),
        format!("/ui/jobs/{}", hostile.given[0]),
        format!("/ui/jobs/new?from={}", hostile.canceled[1]),
        format!("/ui/triggers/{}", hostile.triggers[0]),
    ];
    for path in shown {
        chrome.go(&path).await;
        chrome.find("main").await;
        assert_eq!(chrome.complaints().await, [""; 0], "{path}");
    }
    chrome.close().await;
    world.end().await;
}

/// Searches are shown in the address, in a field and in chips; a rejected form shows its input again.
async fn form_input_is_escaped(comparison: &mut Comparison<'_>, texts: &[String]) {
    let asked: [fn(&str) -> Ask; 10] = [
        |text| Ask::get(format!("/ui/sign-in?next=x{}", encoded(text))),
        |text| {
            let text = encoded(text);
            let keys = ["q", "tag", "subject", "correlation", "worker", "definition", "queue"];
            let query: Vec<String> = keys.iter().map(|key| format!("{key}=x%2F{text}")).collect();
            Ask::get(format!("/ui/jobs?{}", query.join("&")))
        },
        |text| {
            let text = encoded(text);
            Ask::get(format!("/ui/jobs?status=x{text}&source=x{text}&after=x{text}&before=x{text}"))
        },
        |text| Ask::get(format!("/ui/audit?actor=x{0}&action=x{0}&outcome=x{0}", encoded(text))),
        |text| Ask::get(format!("/ui/tenants?q=zzz{}", encoded(text))),
        |text| Ask::get(format!("/ui/members?q=zzz{}", encoded(text))),
        |text| Ask::get(format!("/ui/tokens?q=zzz{}", encoded(text))),
        |text| {
            let text = encoded(text);
            let form = format!(
                "definition=unserved&mode=json&json=x{text}&tags=x{text}&dedupe=x{text}&at=x{text}&priority=x{text}"
            );
            Ask::post("/ui/jobs/new", form)
        },
        |text| {
            let text = encoded(text);
            let form = format!(
                "trigger_type=event&label=x{text}&event_name=x{text}&definition_key=x{text}&conditions=x{text}&payload_template=x{text}&dedupe_window_seconds=x{text}"
            );
            Ask::post("/ui/triggers/new", form)
        },
        |text| Ask::post("/ui/triggers/dry-run", format!("name=x{0}&payload=x{0}", encoded(text))),
    ];
    for ask in asked {
        comparison.all(texts.iter().map(|text| ask(text)).collect(), ask("harmless")).await;
    }
}

/// A running job shows its progress message; each text in turn.
async fn progress_messages_are_escaped(world: &World, comparison: &mut Comparison<'_>, texts: &[String]) {
    let (hostile, benign) = (world.waits(world.acme).await, world.waits(world.globex).await);
    for text in texts {
        report_progress(world, hostile, text).await;
        let ask = Ask::get(format!("/ui/jobs/{hostile}"));
        comparison.all(vec![ask], Ask::get(format!("/ui/jobs/{benign}"))).await;
    }
}

/// The page of dead letters shows the largest groups: these are deleted, and the next ones appear.
async fn every_group_of_errors(
    world: &World,
    comparison: &mut Comparison<'_>,
    hostile: &Filled,
    benign: &Filled,
) {
    for (gone, gone_of_benign) in hostile.dead.chunks(40).zip(benign.dead.chunks(40)) {
        comparison.rows_alike("/ui/dead-letters").await;
        for (tenant, gone) in [(world.acme, gone), (world.globex, gone_of_benign)] {
            let filter = windlass::job::Filter::new(tenant).ids(gone.to_vec());
            world.server.queue.purge_matching(&filter).await.unwrap();
        }
    }
}
