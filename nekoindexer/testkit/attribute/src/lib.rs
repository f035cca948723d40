//! `#[testkit::test]`: an asynchronous test with a runtime and a time limit.

use proc_macro::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};

/// Makes a test of an `async fn` without arguments. It runs on a runtime of one thread, or on one of two with
/// `(multi_thread)`, and fails if it has not ended within `testkit::TEST_LIMIT`.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut signature: Vec<TokenTree> = item.into_iter().collect();
    let body = signature.pop();
    let is_async = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "async");
    let (Some(TokenTree::Group(body)), Some(at)) = (body, signature.iter().position(is_async)) else {
        return fails("`#[testkit::test]` stands before an `async fn`");
    };
    let run = match arguments.to_string().as_str() {
        "" => "run",
        "multi_thread" => "run_on_threads",
        _ => return fails("`#[testkit::test]` takes no argument but `multi_thread`"),
    };
    signature.remove(at);
    let mut call: TokenStream = format!("::testkit::{run}").parse().unwrap_or_default();
    let case: [TokenTree; 3] = [
        Ident::new("async", Span::call_site()).into(),
        Ident::new("move", Span::call_site()).into(),
        TokenTree::Group(body),
    ];
    call.extend([TokenTree::Group(Group::new(Delimiter::Parenthesis, case.into_iter().collect()))]);
    let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
    test.extend(signature);
    test.extend([TokenTree::Group(Group::new(Delimiter::Brace, call))]);
    test
}

/// A compile error that says `text`.
fn fails(text: &str) -> TokenStream {
    format!("::core::compile_error!({text:?});").parse().unwrap_or_default()
}
