//! Secrets that nobody has named in advance.

use super::*;

fn plain() -> Redactor {
    Redactor::default()
}

/// Texts with a secret `Hunter2` in each.
const TEXTS: &[(&str, &str)] = &[
    ("Authorization: Basic Hunter2==", "Authorization: [redacted]"),
    ("> authorization: Bearer Hunter2, x", "> authorization: [redacted]"),
    ("Proxy-Authorization: Digest username=\"u\", response=\"Hunter2\"", "Proxy-Authorization: [redacted]"),
    (
        "curl -H \"Authorization: Token Hunter2\" https://a.b",
        "curl -H \"Authorization: [redacted]\" https://a.b",
    ),
    ("curl -H 'Cookie: a=1; b=Hunter2' -v", "curl -H 'Cookie: [redacted]' -v"),
    ("Cookie: a=b; c=Hunter2", "Cookie: [redacted]"),
    ("Set-Cookie: sid=Hunter2; Path=/", "Set-Cookie: [redacted]"),
    ("{'Authorization': 'Bearer Hunter2', 'n': 1}", "{'Authorization': '[redacted]', 'n': 1}"),
    ("('authorization', 'Bearer Hunter2')", "('authorization', '[redacted]')"),
    ("cannot reach postgres://u:Hunter2@db:5432/x?a=b", "cannot reach postgres://u:[redacted]@db:5432/x?a=b"),
    ("redis://:Hunter2@cache", "redis://:[redacted]@cache"),
    ("postgres://u:Hunt/er2#@db/x", "postgres://u:[redacted]@db/x"),
    (r"https:\/\/u:Hunter2@db\/x", r"https:\/\/u:[redacted]@db\/x"),
    ("clone https://Hunter2aBcDeFgHiJkL@git.example/x", "clone https://[redacted]@git.example/x"),
    ("GET /a?token=Hunter2&b=1&password=Hunter2#c", "GET /a?token=[redacted]&b=1&password=[redacted]"),
    (r#"got {"user":"x","password":"Hunter2","n":1}"#, r#"got {"user":"x","password":"[redacted]","n":1}"#),
    (r#"{"password": "a\"Hunter2"}"#, r#"{"password": "[redacted]"}"#),
    (r#""{\"password\":\"a\\\"Hunter2\",\"n\":1}""#, r#""{\"password\":\"[redacted]\",\"n\":1}""#),
    (r#"{\\\"password\\\":\\\"Hunter2\\\"}"#, r#"{\\\"password\\\":\\\"[redacted]\\\"}"#),
    (r#"{"secrets":["Hunter2",{"a":"Hunter2"}],"n":1}"#, r#"{"secrets":[redacted],"n":1}"#),
    ("password='Hunter2 is it''s' x", "password='[redacted]' x"),
    ("password: Hunter2", "password: [redacted]"),
    ("PASSWORD=Hunter2;Server=db", "PASSWORD=[redacted];Server=db"),
    ("{password:Hunter2,user:x}", "{password:[redacted],user:x}"),
    (
        "Config { password: Some(\"Hunter2\"), user: \"x\" }",
        "Config { password: Some(\"[redacted]\"), user: \"x\" }",
    ),
    ("dbPass => Hunter2", "dbPass => [redacted]"),
    ("config[\"api_key\"] = \"Hunter2\"", "config[\"api_key\"] = \"[redacted]\""),
    ("token: Bearer Hunter2", "token: [redacted]"),
    ("got bearer Hunter2abc", "got bearer [redacted]"),
    ("run --db-password Hunter2 -v", "run --db-password [redacted] -v"),
    ("[\"--token\", \"Hunter2\"]", "[\"--token\", \"[redacted]\"]"),
    ("run --token=Hunter2 -v", "run --token=[redacted] -v"),
    ("<db><password>Hunter2</password></db>", "<db><password>[redacted]</password></db>"),
    ("ALTER ROLE a PASSWORD 'Hunter2';", "ALTER ROLE a PASSWORD '[redacted]';"),
    ("jwt eyJhbGciOi.eyJzdWIiOi.Hunter2", "jwt [redacted]"),
    (
        "client_secret=Hunter2 aws_secret_access_key=Hunter2",
        "client_secret=[redacted] aws_secret_access_key=[redacted]",
    ),
    ("level=info password=Hunter2\\n", "level=info password=[redacted]\\n"),
    ("pässword token=Hunter2é", "pässword token=[redacted]"),
];

#[test]
fn a_secret_is_recognized_by_its_surroundings() {
    for (text, expected) in TEXTS {
        assert_eq!(plain().text(text), *expected, "{text}");
        assert_eq!(plain().text(expected), *expected, "again");
        for cut in 0..=text.len() {
            let bytes = text.as_bytes();
            assert_eq!(run(&plain(), [&bytes[..cut], &bytes[cut..]]), *expected, "cut at {cut}");
        }
    }
}

#[test]
fn text_that_only_resembles_a_secret_is_kept() {
    let texts = [
        "max_tokens: 512, token_count=5, prompt_tokens=12",
        "passengers: 3, compass: north, bypass=yes, monkey=x",
        "unexpected token: }",
        "payload: at /token: must be a string",
        "password is required; token expired",
        "thread panicked at src/auth/token.rs:12:5",
        "token.py:12: error",
        "auth::token::verify(x) in auth::secret::Secret::new",
        "--password is required",
        "see https://example.com:8080/a@b and ssh://git@github.com/x",
        "basic authentication, bearer authentication",
        "token: null, secret: None, password=true",
        "keyboard: qwerty, key=value, author: Ann",
        "the secret of success",
    ];
    for text in texts {
        assert_eq!(plain().text(text), text);
        assert_eq!(run(&plain(), text.as_bytes().chunks(1)), text);
    }
}

#[test]
fn names_are_secret_by_their_words() {
    let secret = [
        "pwd",
        "DB_PWD",
        "pass",
        "userPass",
        "DBPass",
        "pass2",
        "user-pass",
        "passphrase",
        "passwd",
        "credential",
        "credentials",
        "private_key",
        "clientSecret",
        "access_key",
        "AWS_ACCESS_KEY_ID",
        "creds",
        "authKey",
    ];
    let plain = [
        "compass",
        "passenger",
        "passengers",
        "bypass",
        "passed",
        "monkey",
        "key",
        "author",
        "pwdump",
        "jwtx",
    ];
    for name in secret {
        assert!(is_secret_key(name), "{name}");
    }
    for name in plain {
        assert!(!is_secret_key(name), "{name}");
    }
    assert_eq!(
        payload(&json!({"token_count": 5, "compass": "n", "pwd": "x"})),
        json!({"token_count": 5, "compass": "n", "pwd": PLACEHOLDER})
    );
}

#[test]
fn the_names_of_a_definition_are_secret_in_texts_too() {
    let rules = Rules::new(&Redaction::new().key("Card-PIN")).unwrap();
    let redactor = rules.redactor(&plain(), "{}");
    assert_eq!(
        redactor.text("card_pin=4711 pin=4711 password=x1"),
        "card_pin=[redacted] pin=4711 password=[redacted]"
    );
    assert_eq!(
        redactor.json(&json!({"cardPin": 4711, "tokens_spent": 5})),
        json!({"cardPin": PLACEHOLDER, "tokens_spent": 5})
    );
}

/// A key of 27 lines.
fn key() -> String {
    let line = |n: usize| format!("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8{n:03}");
    let body: Vec<String> = (0..25).map(line).collect();
    format!("-----BEGIN RSA PRIVATE KEY-----\n{}\nQUJDRA==\n-----END RSA PRIVATE KEY-----", body.join("\n"))
}

#[test]
fn a_private_key_is_removed_also_in_parts_and_wherever_the_stream_is_cut() {
    let key = key();
    let crlf = key.replace('\n', "\r\n");
    let indented = key.replace('\n', "\n  ");
    let prefixed = key.replace('\n', "\n2026-01-01T00:00:00Z web | ");
    let json = format!("{{\"tls\":{}}}", json!(key));
    let (head, tail) = key.split_at(700);
    let tail = tail.split_once('\n').unwrap().1;
    let texts = [&key, &crlf, &indented, &prefixed, &json, head, tail];
    for part in texts {
        let text = format!("before\n{part}\nafter. all\n");
        let clean = run(&plain(), [text.as_bytes()]);
        assert!(clean.starts_with("before\n") && clean.ends_with("\nafter. all\n"), "{clean}");
        assert!(
            clean.contains(PLACEHOLDER) && !clean.contains("MIIE") && !clean.contains("QUJDRA"),
            "{clean}"
        );
        assert_eq!(plain().text(&text), clean);
        for size in [1, 7, 63, 64, 65, 500] {
            assert_eq!(run(&plain(), text.as_bytes().chunks(size)), clean, "in pieces of {size}");
        }
    }
    let hashes = format!("{}\nend\n", "0123456789abcdef".repeat(4));
    assert_eq!(run(&plain(), hashes.as_bytes().chunks(9)), hashes);
}

#[test]
fn a_key_whose_lines_are_logged_one_at_a_time_is_removed() {
    let (redactor, mut is_in_key) = (plain(), false);
    let lines: Vec<String> = key()
        .lines()
        .chain(["after. all"])
        .map(|line| redactor.part(line, &mut is_in_key).into_owned())
        .collect();
    assert_eq!(lines.iter().filter(|line| !line.is_empty()).collect::<Vec<_>>(), [PLACEHOLDER, "after. all"]);
}

#[test]
fn each_line_of_a_secret_with_several_is_a_secret() {
    let secret = "first-line-of-it\r\n  second-line-of-it\nabc\nthird-line";
    let redactor = plain().with_values([secret]);
    for line in ["first-line-of-it", "> second-line-of-it", "\tthird-line", "dGhpcmQtbGluZQ=="] {
        assert!(redactor.text(line).contains(PLACEHOLDER), "{line}");
    }
    assert_eq!(redactor.text(secret), PLACEHOLDER);
}

#[test]
fn a_long_secret_is_removed_to_the_end_of_its_line_in_bounded_memory() {
    for before in [0, 3_000, 12_283, 12_288, 16_380, 40_000] {
        let text =
            format!("{} password=\"{}\" after\nnext", "x ".repeat(before / 2), "Hunter2 ".repeat(10_000));
        let clean = run(&plain(), [text.as_bytes()]);
        assert!(!clean.contains("Hunter2") && clean.ends_with("\nnext"), "{before}");
        assert_eq!(run(&plain(), text.as_bytes().chunks(1000)), clean, "{before}");
        assert_eq!(run(&plain(), text.as_bytes().chunks(7)), clean, "{before}");
    }
    let mut stream = TextStream::new(&SecretNames::common(), false);
    let mut clean = Vec::new();
    for _ in 0..1000 {
        stream.push(
            b"password=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            &mut clean,
        );
        stream.push("A".repeat(64).as_bytes(), &mut clean);
        assert!(stream.held_bytes() <= 17 * 1024);
    }
}

proptest! {
    #[test]
    fn surroundings_are_found_independent_of_the_pieces(
        words in prop::collection::vec(prop_oneof![
            prop::sample::select(TEXTS).prop_map(|(text, _)| text.to_owned()),
            Just("\n".to_owned()), Just("\r\n".to_owned()), Just(" ".to_owned()), Just("x".repeat(50)),
            Just("-----BEGIN PRIVATE KEY-----".to_owned()), Just("-----END PRIVATE KEY-----".to_owned()),
            Just("QUJD".repeat(16)), Just("word ".repeat(3000)), "[a-z:=\"' -]{0,9}",
        ], 0..14),
        size in 1..3000_usize,
    ) {
        let whole = words.concat();
        let expected = run(&plain(), [whole.as_bytes()]);
        prop_assert_eq!(run(&plain(), whole.as_bytes().chunks(size)), expected);
    }
}
