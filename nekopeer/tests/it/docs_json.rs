//! Compares docs/json.md with the descriptions of REST of both programs, and with what the command line prints beside.

use std::{collections::BTreeSet, net::SocketAddr};

use nekoindexer::{Config, Indexer};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::{
    common::{
        ANY_PORT,
        http::{Http, ask},
    },
    docs::{quoted, texts, words},
    program::one_home,
};

type Keys = BTreeSet<(String, String)>;

fn table<'a>(page: &'a str, heading: &str) -> impl Iterator<Item = Vec<&'a str>> {
    let (_, rows) = page.split_once(&format!("\n| {heading} |")).unwrap();
    let rows = rows.split("\n\n").next().unwrap().lines().skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect())
}

fn add_keys(keys: &mut Keys, object: &str, schema: &Value) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        keys.insert((key.clone(), object.to_owned()));
        add_keys(keys, object, value);
    }
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|of| schema[of].as_array());
    parts.flatten().for_each(|part| add_keys(keys, object, part));
}

fn described(addr: SocketAddr) -> Keys {
    let (api, mut keys) = (ask(addr, "GET", "/api/v1/openapi.json", &[], b"").done(200), Keys::new());
    for (object, schema) in api["components"]["schemas"].as_object().unwrap() {
        add_keys(&mut keys, object, schema);
    }
    let methods = api["paths"].as_object().unwrap().values().filter_map(Value::as_object);
    let parameters =
        methods.flat_map(|methods| methods.values()).filter_map(|at| at["parameters"].as_array());
    let names = parameters.flatten().map(|parameter| parameter["name"].as_str().unwrap().to_owned());
    keys.extend(names.map(|name| (name, "parameter".to_owned())));
    keys
}

/// The keys of objects that are made in place, and of the three types that no description has.
fn made() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for text in texts(&["nekopeer/src", "nekoindexer/src"], ".rs").values() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        for object in code.split("json!({").skip(1) {
            let parts: Vec<_> = object.split("})").next().unwrap().split('"').collect();
            let is_key = |pair: &&[&str]| pair[1].starts_with(':');
            keys.extend(parts[1..].chunks_exact(2).filter(is_key).map(|pair| pair[0].to_owned()));
        }
        for structure in ["struct Repaired {", "enum Examined {", "struct Failure {"] {
            let fields = code.split_once(structure).map_or("", |(_, rest)| rest.split("\n}").next().unwrap());
            let fields = fields.replace("#[serde(skip)]\n", "#"); // that is no key
            let fields = fields.lines().filter_map(|line| line.trim().split_once(": "));
            let fields = fields.filter(|(name, _)| !name.starts_with(['/', '#']));
            keys.extend(fields.filter_map(|(name, _)| words(name).next_back()));
        }
    }
    keys
}

#[test]
fn keys_of_json_are_in_one_table() {
    let page = &texts(&["docs"], "json.md")["docs/json.md"];
    let runtime = Runtime::new().unwrap();
    let config = Config { listen: ANY_PORT, http: Some(ANY_PORT), ..Config::default() };
    let indexer = runtime.block_on(Indexer::spawn(config)).unwrap();
    let (_indexers, home) = one_home();
    let (_serving, http) = Http::serving(&home, &[]);
    let mut is = described(http.addr);
    is.extend(described(indexer.http_addr().unwrap()));

    let (mut said, mut others) = (Keys::new(), BTreeSet::new());
    for row in table(page, "key") {
        for object in row[2].split(", ") {
            let keys = quoted(row[0]).map(str::to_owned);
            match object.trim_matches('`') {
                name if name == "parameter" || name.starts_with(char::is_uppercase) => {
                    said.extend(keys.map(|key| (key, name.to_owned())));
                }
                _ => others.extend(keys),
            }
        }
    }
    let difference = |these: &Keys, those: &Keys| these.difference(those).cloned().collect::<Vec<_>>();
    assert_eq!(difference(&is, &said), [], "the page lacks them");
    assert_eq!(difference(&said, &is), [], "the code lacks them");
    let made = made();
    let known: BTreeSet<_> = said.iter().map(|(key, _)| key.clone()).chain(others.iter().cloned()).collect();
    assert_eq!(made.difference(&known).collect::<Vec<_>>(), [""; 0], "the page lacks them");
    let of_code: BTreeSet<_> = is.iter().map(|(key, _)| key.clone()).chain(made).collect();
    assert_eq!(others.difference(&of_code).collect::<Vec<_>>(), [""; 0], "the code lacks them");

    let objects = is.into_iter().map(|(_, object)| object).filter(|object| object != "parameter");
    let shown = table(page, "object").flat_map(|row| quoted(row[0]).map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(shown.collect::<BTreeSet<_>>(), objects.collect(), "objects");
    let is_of_unit = |key: &str| key.ends_with("_us") || key.ends_with("_s") && !key.ends_with("_per_s");
    assert!(!said.iter().any(|(key, _)| is_of_unit(key)), "durations are in ms, and in s what a user sets");
    runtime.block_on(indexer.shutdown());
}
