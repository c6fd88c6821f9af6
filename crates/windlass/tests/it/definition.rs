//! The rules of a definition exist in Rust, which reports all of them before a statement, and in SQL, which has callers without Rust.

use serde_json::{Value, json};
use windlass::Error;
use windlass::admin::{Actor, Reach};
use windlass::internals::{Policies, RANGES};
use windlass::job::Backoff;
use windlass_testing::TestQueue;

/// Those of a job whose definition does not exist, of the columns of a new definition, and of Rust.
#[tokio::test]
async fn the_default_policies_are_the_same_everywhere() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let row = client.query_one("select windlass.default_policies()", &[]).await.unwrap();
    let Value::Object(mut default) = row.get::<_, Value>(0) else { panic!("an object") };
    client.execute("select windlass.define($1)", &[&json!({"key": "plain"})]).await.unwrap();
    let columns = "select to_jsonb(d) from windlass.job_definitions d where d.key = 'plain'";
    let columns: Value = client.query_one(columns, &[]).await.unwrap().get(0);
    let ours = serde_json::to_value(Policies::default()).unwrap();

    let backoff = |value: &Value| serde_json::from_value::<Backoff>(value.clone()).unwrap();
    assert_eq!(backoff(&columns["backoff"]), Backoff::default());
    assert_eq!(backoff(&default.remove("backoff").unwrap()), Backoff::default());
    for (name, value) in &default {
        assert_eq!((&columns[name], &ours[name]), (value, value), "{name}");
    }
    assert_eq!(default.len(), 5);
}

#[tokio::test]
async fn the_ranges_of_numbers_are_the_same_everywhere() {
    let queue = TestQueue::create().await;
    let client = queue.client().await;
    let acting = queue.act(Reach::Everything, &Actor::new("tester")).await.unwrap();
    for (field, least, most) in RANGES {
        let expected = format!("must be a whole number between {least} and {most}");
        for (value, refusal) in
            [(least, None), (most, None), (least - 1, Some(&expected)), (most + 1, Some(&expected))]
        {
            let fields = json!({"key": "a", field: value});
            let query = "select problem from windlass.definition_problem($1)";
            let problem: Option<String> = client.query_one(query, &[&fields]).await.unwrap().get(0);
            assert_eq!(problem.as_ref(), refusal, "{field} {value}");
            if let Some(refusal) = refusal {
                let Err(Error::Refused { field: named, message, .. }) =
                    acting.create_definition(fields.as_object().unwrap()).await
                else {
                    panic!("{field} {value}")
                };
                assert_eq!((named.as_str(), &message), (field, refusal));
            }
        }
    }
    let ten_years = windlass::NewJob::MAX_DELAY.as_secs();
    for (window, is_valid) in [(ten_years, true), (ten_years + 1, false)] {
        let unique = json!({"window_seconds": window});
        let row = client.query_one("select windlass.is_uniqueness($1)", &[&unique]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), is_valid);
        assert_eq!(serde_json::from_value::<windlass::job::Unique>(unique).is_ok(), is_valid);
    }
    let in_sql =
        "select count(*) from pg_proc p, regexp_matches(p.prosrc, '\\(''[a-z_]+'', [0-9]+, [0-9]+', 'g')
        where p.proname = 'definition_problem'";
    assert_eq!(usize::try_from(crate::support::count(&client, in_sql).await).unwrap(), RANGES.len());
}
