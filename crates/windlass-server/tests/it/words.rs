//! Messages about invalid input name the field and say in plain words what was expected: no message of a parser reaches the
//! caller.

use reqwest::Method;
use serde_json::{Value, json};
use windlass_server::http::{Audience, document, table};

use crate::matrix::world::{self, Ids, body};

/// Parts of the messages of parsers, and names of types of this program.
const PARSERS: [&str; 24] = [
    "invalid type",
    "invalid value",
    "invalid length",
    "expected",
    "untagged",
    "missing field",
    "duplicate field",
    "variant",
    " at line",
    " column",
    "u8",
    "u16",
    "u32",
    "u64",
    "usize",
    "i16",
    "i32",
    "f64",
    "struct ",
    "sequence",
    "deserialize",
    "EOF",
    "found in string",
    "target type",
];

/// A field of a body: where it is, and its schema.
struct Field {
    pointer: String,
    name: String,
    schema: Value,
}

/// The schema itself, of a reference too; of something that may be null, the other one.
fn resolved(schema: &Value, document: &Value) -> Value {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next()) {
        return resolved(&document["components"]["schemas"][name], document);
    }
    let either = schema["oneOf"].as_array().into_iter().flatten();
    match either.filter(|one| one["type"] != "null").collect::<Vec<_>>()[..] {
        [only] => resolved(only, document),
        _ => schema.clone(),
    }
}

/// Every field of an object and of the objects in it.
fn fields(schema: &Value, pointer: &str, document: &Value) -> Vec<Field> {
    let schema = resolved(schema, document);
    let mut found = Vec::new();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let pointer = format!("{pointer}/{name}");
        let field = resolved(field, document);
        found.extend(fields(&field, &pointer, document));
        found.extend(fields(&field["items"], &format!("{pointer}/0"), document));
        found.push(Field { pointer, name: name.clone(), schema: field });
    }
    found
}

/// Sets the value at a pointer, and creates the objects and lists on its way.
fn set(body: &mut Value, pointer: &str, value: Value) {
    let mut place = body;
    for part in pointer.split('/').skip(1) {
        if part == "0" {
            if place.as_array().is_none_or(Vec::is_empty) {
                *place = json!([{}]);
            }
            place = &mut place[0];
        } else {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[part];
        }
    }
    *place = value;
}

/// What a parser says about a type of this program helps no caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_of_the_wrong_type_is_named_in_plain_words_by_every_route() {
    let server = world::server().await;
    let tenant = server.queue.tenant("mine").await;
    let ids = Ids::of(&server, tenant).await;
    let admin = server.admin.with("x-tenant-id", tenant);
    let document = document();
    let (mut tried, mut faults) = (0, Vec::new());
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let Some(content) = operation["requestBody"]["content"].get("application/json") else { continue };
        // A payload is data of the application.
        let fields = fields(&content["schema"], "", &document).into_iter();
        for field in fields.filter(|field| field.name != "payload") {
            let mut whole = field.schema.clone();
            whole["components"] = json!({"schemas": document["components"]["schemas"]});
            let validator = jsonschema::validator_for(&whole).unwrap();
            let wrong = [json!("x y"), json!(-7.5), json!(true), json!({"x": 1}), json!([[7]])];
            // Another length or pattern is not another type.
            let is_text =
                field.schema["type"].to_string().contains("string") && field.schema.get("enum").is_none();
            let is_wrong = |value: &Value| !(validator.is_valid(value) || is_text && value.is_string());
            for value in wrong.into_iter().filter(is_wrong) {
                let mut sent = body(route, &ids);
                set(&mut sent, &field.pointer, value.clone());
                let reply = admin.send(route.method.clone(), &ids.path(route), Some(&sent)).await;
                tried += 1;
                let place =
                    format!("{} {} {}={value}: {}", route.method, route.path, field.pointer, reply.text);
                // A list of jobs reports each of them.
                let refusal = match reply.json()["results"].get(0) {
                    Some(result) => result.clone(),
                    None => reply.json(),
                };
                // Not in the detail, which may begin with a random key.
                let errors = refusal["errors"].to_string();
                let is_named = errors.contains(&field.name);
                let is_plain = !PARSERS.iter().any(|parser| errors.contains(parser));
                if refusal["status"] != 422 || !is_named || !is_plain {
                    faults.push(place);
                }
            }
        }
    }
    assert!(tried > 300, "{tried}");
    assert!(faults.is_empty(), "{} of {tried}\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_with_an_invalid_value_is_named_in_plain_words_by_every_route() {
    let server = world::server().await;
    let tenant = server.queue.tenant("mine").await;
    let ids = Ids::of(&server, tenant).await;
    let admin = server.admin.with("x-tenant-id", tenant);
    let document = document();
    for route in table().iter().filter(|route| route.audience == Audience::Programs) {
        let operation = &document["paths"][route.path][route.method.as_str().to_lowercase()];
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            let name = parameter["name"].as_str().unwrap();
            let schema = resolved(&parameter["schema"], &document);
            let is_text = schema["type"].to_string().contains("string")
                && schema.get("enum").is_none()
                && schema.get("format").is_none();
            let path = ids.path(route).split('?').next().unwrap().to_owned();
            for value in ["", "x", "-1", "99999999999999999999", "1.5"] {
                let path = format!("{path}?{name}={value}");
                let reply = admin.send(route.method.clone(), &path, None).await;
                // A cursor can be any whole number.
                let is_number =
                    schema["type"].to_string().contains("integer") && schema.get("minimum").is_none();
                if is_text || is_number && value == "-1" {
                    continue;
                }
                let problem = reply.problem(422, "invalid");
                let message = problem["errors"][0]["message"].as_str().unwrap();
                assert_eq!(problem["errors"][0]["pointer"], format!("?{name}"), "{path}: {problem}");
                assert!(!PARSERS.iter().any(|parser| message.contains(parser)), "{path}: {message}");
            }
            if route.method == Method::GET && !is_text {
                let path = format!("{path}?{name}=1&{name}=2");
                let problem = admin.send(Method::GET, &path, None).await.problem(422, "invalid");
                assert_eq!(problem["errors"][0]["pointer"], format!("?{name}"), "{path}: {problem}");
            }
        }
    }
}
