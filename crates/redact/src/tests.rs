use std::io::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use proptest::prelude::*;

use crate::{Secrets, form, is_maskable};

const TOKEN: &str = "omoi_sbx_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";
const OTHER: &str = "omoi_op_ZZ9dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde";
const KEY: &str = "sk-ant-a+b/c?d\"e\\f=ü0";

fn known() -> Secrets {
    Secrets::new([TOKEN, KEY])
}

/// Knows no secret, and so tokens by their shape alone.
fn shapes() -> Secrets {
    Secrets::new::<&str>([])
}

fn wrapped(text: &str, width: usize, line_end: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).unwrap()).collect();
    lines.join(line_end)
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Every usual way in which a secret appears in the output of a program.
fn encoded(secret: &str) -> Vec<String> {
    let mut texts = vec![secret.to_owned()];
    for before in ["", "x", "xy", "OMOI_TOKEN=", "HOME=/home/agent\nOMOI_TOKEN="] {
        for after in ["", "\n", "\nPATH=/usr/bin:/bin\nHOME=/root\n"] {
            let plain = format!("{before}{secret}{after}");
            let base64 = [STANDARD.encode(&plain), URL_SAFE_NO_PAD.encode(&plain)];
            let hex = text_of(form::hex(plain.as_bytes(), false));
            for width in [60, 64, 76] {
                texts.push(wrapped(&base64[0], width, "\n"));
                texts.push(wrapped(&base64[0], width, "\r\n   "));
                texts.push(wrapped(&base64[0], width, "\\n"));
                texts.push(wrapped(&hex, width, "\n"));
            }
            texts.extend([base64[0].clone(), base64[1].clone(), hex.clone(), hex.to_uppercase()]);
            for (upper, every) in [(false, false), (true, false), (false, true), (true, true)] {
                texts.push(text_of(form::percent(plain.as_bytes(), upper, every)));
            }
            texts
                .push(form::percent(base64[0].as_bytes(), true, false).into_iter().map(char::from).collect());
        }
    }
    // As `od -An -tx1` and `xxd` group bytes, beginning anywhere in a line.
    for (before, group) in (0..16).flat_map(|before| [(before, 2), (before, 4)]) {
        let digits = form::hex(format!("{}{secret}", "x".repeat(before)).as_bytes(), false);
        let lines = digits.chunks(32).map(|line| {
            let groups: Vec<String> = line.chunks(group).map(|digits| text_of(digits.to_vec())).collect();
            groups.join(" ") + "\n"
        });
        texts.push(lines.collect());
    }
    texts
}

fn dumped(secret: &str) -> Vec<String> {
    let dump = |before| {
        let plain = format!("{}{secret}\nPATH=/usr/bin:/bin\n", "x".repeat(before));
        [hexdump(plain.as_bytes()), xxd(plain.as_bytes())]
    };
    (0..16).flat_map(dump).collect()
}

fn characters(line: &[u8]) -> String {
    line.iter().map(|byte| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' }).collect()
}

/// As `hexdump -C` prints.
fn hexdump(bytes: &[u8]) -> String {
    let line = |(n, line): (usize, &[u8])| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let (left, right) = digits.split_at(digits.len().min(8));
        let column = format!("{}  {}", left.join(" "), right.join(" "));
        format!("{:08x}  {column:<48}  |{}|\n", n * 16, characters(line))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

fn xxd(bytes: &[u8]) -> String {
    let line = |(n, line): (usize, &[u8])| {
        let digits: Vec<String> = line.chunks(2).map(|pair| text_of(form::hex(pair, false))).collect();
        format!("{:08x}: {:<39}  {}\n", n * 16, digits.join(" "), characters(line))
    };
    bytes.chunks(16).enumerate().map(line).collect()
}

/// What is left of a secret in a masked text: the longest run of its characters in any of its forms.
fn rest_of(secret: &str, masked: &str) -> usize {
    let squeezed: String = masked.replace("\\n", "").split_whitespace().collect();
    let held = |form: &[u8]| {
        (0..form.len())
            .map(|from| {
                (from..form.len()).take_while(|to| find(squeezed.as_bytes(), &form[from..=*to])).count()
            })
            .max()
            .unwrap_or_default()
    };
    form::all(secret.as_bytes()).iter().map(|form| held(&form.text)).max().unwrap_or_default()
}

fn find(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_known_secret_is_masked_in_every_encoding() {
    for secret in [TOKEN, KEY] {
        for text in encoded(secret).into_iter().chain(dumped(TOKEN)) {
            let around = format!("$ run\n{text}\nend");
            let masked = known().owned(around.clone());
            assert_ne!(masked, around, "{text}");
            assert_eq!(masked.len(), around.len());
            assert!(rest_of(secret, &masked) < 10, "{text}\nbecame {masked}");
            let line = serde_json::to_string(&[&around]).unwrap();
            let masked = text_of(known().json(line.as_bytes()).into_owned());
            let value: Vec<String> = serde_json::from_str(&masked).unwrap();
            assert!(rest_of(secret, &value[0]) < 10, "{line}\nbecame {masked}");
            let nested = serde_json::to_string(&line).unwrap();
            let masked = text_of(known().json(nested.as_bytes()).into_owned());
            let value: String = serde_json::from_str(&masked).unwrap();
            assert!(rest_of(secret, &value) < 10, "{nested}\nbecame {masked}");
        }
    }
}

#[test]
fn a_token_that_is_not_known_is_masked_by_its_shape() {
    for token in [TOKEN, OTHER, "omoi_ses_Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789-_abcde"] {
        for text in encoded(token).into_iter().chain(dumped(token)) {
            let masked = shapes().owned(format!("$ run\n{text}\nend"));
            assert!(rest_of(&token[9..], &masked) < 12, "{text}\nbecame {masked}");
        }
        assert_eq!(
            shapes().text(&format!("a {token}, b")),
            format!("a {}{}, b", &token[..token.len() - 43], "*".repeat(43))
        );
        let cut = &token[..25];
        assert!(!shapes().text(cut).contains("Gh"), "a token that was cut off");
    }
}

#[test]
fn a_dump_is_masked_in_both_columns() {
    for secrets in [known(), shapes()] {
        for before in 0..16 {
            let plain = format!("{}{TOKEN}\nend\n", "x".repeat(before));
            for dump in [hexdump(plain.as_bytes()), xxd(plain.as_bytes())] {
                let masked = secrets.owned(format!("$ dump\n{dump}$ end"));
                let in_json = serde_json::to_string(&[format!("$ dump\n{dump}$ end")]).unwrap();
                let in_json = text_of(secrets.json(in_json.as_bytes()).into_owned());
                assert_eq!(serde_json::from_str::<[String; 1]>(&in_json).unwrap()[0], masked);
                let lines: Vec<&str> = masked.lines().filter(|line| line.starts_with("000000")).collect();
                let characters: String = lines
                    .iter()
                    .map(|line| {
                        line.split_once('|').map_or_else(|| &line[51..], |(_, last)| &last[..last.len() - 1])
                    })
                    .collect();
                assert!(characters.ends_with(&format!("{}.end.", "*".repeat(43))), "{masked}");
                let digits: String = lines
                    .iter()
                    .flat_map(|line| line[9..].split("  |").next().unwrap().trim().split("  ").take(2))
                    .collect();
                assert!(!digits.contains("41 62 33") && !digits.contains("4162 33"), "{masked}");
                assert_eq!(masked.len(), format!("$ dump\n{dump}$ end").len());
            }
        }
    }
}

#[test]
fn a_token_in_clear_text_is_masked_where_it_is_folded() {
    for secrets in [known(), shapes()] {
        for width in 12..52_usize {
            for before in ["", "OMOI_TOKEN=", "x OMOI_TOKEN="] {
                let (first, rest) = TOKEN.split_at(width.saturating_sub(before.len()).max(9));
                for after in ["", "\n", "\nPATH=/usr/bin:/bin\nHOME=/root\n", "\nA 2 b"] {
                    let lines = wrapped(rest, width.max(15), "\n");
                    let text = format!("{before}{first}\n{lines}{after}");
                    let masked = secrets.owned(text.clone());
                    assert!(!rest.is_empty() && rest_of(&TOKEN[9..], &masked) < 4, "{text}\nbecame {masked}");
                    assert!(masked.ends_with(after) && masked.starts_with(before));
                }
            }
        }
    }
}

#[test]
fn an_escaped_secret_in_json_is_masked_and_the_json_stays_valid() {
    let escaped: String = TOKEN.bytes().fold(String::new(), |text, byte| format!("{text}\\u{byte:04x}"));
    let line = format!("{{\"a\":\"{escaped}\",\"n\":1.0}}");
    let masked = text_of(known().json(line.as_bytes()).into_owned());
    let value: serde_json::Value = serde_json::from_str(&masked).unwrap();
    assert!(value["a"].as_str().unwrap().bytes().all(|byte| byte == b'*'));
    assert!(masked.ends_with("\"n\":1.0}"));
    // A secret of digits is no reason to touch a number.
    let digits = Secrets::new(["1234567890123456"]);
    let masked = text_of(digits.json(br#"[1234567890123456,"1234567890123456"]"#).into_owned());
    assert_eq!(masked, r#"[1234567890123456,"****************"]"#);
    // The `n` of an escape is no character of a secret.
    let named = Secrets::new(["name-of-1"]);
    assert_eq!(
        text_of(named.json(br#"["\name-of-1","x\nname-of-1"]"#).into_owned()),
        r#"["\name-of-1","x\n*********"]"#
    );
}

#[test]
fn ordinary_text_is_left_alone() {
    let secrets = known();
    for text in [
        "",
        "a sandbox's token begins with omoi_sbx_ and an operator's with omoi_op_…",
        "omoi_op_create_the_first_token() and omoi_sessions_total",
        "omoi_ses_cleanup_2026_10_01 and omoi_op_create_the_first_token_v2, then more",
        "omoi_ses_cleanup_2026_10_01",
        "omoi_op_create(\nsomeValue, 2)\nomoi_op_create_2\nFrom",
        "the prefix omoi_sbx_\nAnd Then Other Words Follow That Have 43 Characters In All",
        "b21vaV9zYnhf alone is the prefix in base64",
        "\\u001b[31mred\\u001b[0m \\u003cb\\u003e",
        "100%25 %6F%6D%6F%69 \\n \\\\",
    ] {
        assert_eq!(secrets.text(text), text);
        assert!(matches!(secrets.json(format!("{text:?}").as_bytes()), std::borrow::Cow::Borrowed(_)));
    }
    assert!(!is_maskable("omoi") && !is_maskable("postgres") && !is_maskable("20260101"));
    assert!(is_maskable("hunter-22"));
    assert_eq!(Secrets::new(["", "omoi"]).text("omoi"), "omoi");
}

#[test]
fn masked_base64_and_hex_can_be_decoded_and_nothing_beside_the_secret_changes() {
    let (before, after) = ("{\"text\":\"", "\"}\n{\"next\":1}\n");
    for (secrets, secret) in [(known(), TOKEN), (known(), KEY), (shapes(), TOKEN), (shapes(), OTHER)] {
        for shift in ["", "x", "xy"] {
            let plain = format!("{shift}{before}{secret}{after}");
            let base64 = secrets.owned(STANDARD.encode(&plain));
            let hex = secrets.owned(text_of(form::hex(plain.as_bytes(), false)));
            let digits: Vec<u8> =
                hex.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
            let of_hex = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            for decoded in [STANDARD.decode(&base64).unwrap(), of_hex] {
                let kept = decoded.starts_with(format!("{shift}{before}").as_bytes());
                assert!(
                    kept && decoded.ends_with(after.as_bytes()),
                    "{base64} {}",
                    String::from_utf8_lossy(&decoded)
                );
                assert!(decoded.windows(20).any(|window| window == [b'*'; 20]));
            }
        }
    }
}

#[test]
fn a_long_text_is_masked_throughout() {
    let mut text = Vec::new();
    for n in 0..3000 {
        writeln!(text, "{n} {TOKEN} {}", "x".repeat(n % 97)).unwrap();
    }
    let masked = text_of(known().bytes(&text).into_owned());
    assert_eq!(masked.len(), text.len());
    assert!(!masked.contains("Ab3d"));
}

#[test]
fn a_stream_holds_nothing_back_that_is_no_beginning_of_a_secret() {
    let secrets = known();
    let mut stream = secrets.stream();
    assert_eq!(stream.push(b"data: hello\n\n"), b"data: hello\n\n");
    assert_eq!(stream.push(b"hello, sk"), b"hello, sk", "too little to be held back");
    assert_eq!(stream.push(b"-a"), b"");
    assert_eq!(stream.push(b"nt or so\n"), b"-ant or so\n");
    assert_eq!(stream.push(b"a sk-an"), b"a ");
    assert_eq!(stream.push(b"d so on\n"), b"sk-and so on\n");
    assert_eq!(stream.push(b"omoi_sbx_Ab3"), b"");
    assert_eq!(stream.finish(), b"omoi_sbx_Ab3");
}

proptest! {
    #[test]
    fn a_secret_is_masked_however_the_stream_is_cut(
        which in 0usize..1000, cuts in prop::collection::vec(0usize..400, 0..8)
    ) {
        let texts = encoded(TOKEN);
        let text = format!("OMOI_TOKEN={}\nend\n", texts[which % texts.len()]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.sort_unstable();
        for secrets in [known(), shapes()] {
            let (mut stream, mut out, mut from) = (secrets.stream(), Vec::new(), 0);
            for cut in cuts.iter().copied().chain([text.len()]) {
                out.extend_from_slice(&stream.push(&text.as_bytes()[from..cut]));
                from = cut;
            }
            out.extend_from_slice(&stream.finish());
            let out = text_of(out);
            prop_assert_eq!(out.len(), text.len());
            prop_assert!(rest_of(&TOKEN[9..], &out) < 12, "{} became {}", text, out);
        }
    }

    #[test]
    fn any_text_keeps_its_length_and_any_json_stays_valid(text in "[\\\\\"nu0-9a-f%_ omsbx\n]{0,200}", tail in any::<String>()) {
        let value = serde_json::json!({ text.clone() + TOKEN: [tail.clone(), 1, TOKEN.to_owned() + &text] });
        let line = value.to_string();
        let masked = known().json(line.as_bytes()).into_owned();
        prop_assert_eq!(masked.len(), line.len());
        let read: serde_json::Value = serde_json::from_slice(&masked).unwrap();
        prop_assert!(!read.to_string().contains("Ab3dEf"));
        prop_assert_eq!(known().text(&text).len(), text.len());
    }
}
