//! `#[testkit::test]`: an asynchronous test with a runtime and a time limit.

use proc_macro::{Delimiter, Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

/// Makes a test of an `async fn`. It runs on a runtime of one thread, or on one of two with `(multi_thread)`, and fails
/// if it has not ended within `testkit::TEST_LIMIT`. One with the argument `security: Security` runs over TLS and then
/// in the clear, each time on a runtime of its own.
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut signature: Vec<TokenTree> = item.into_iter().collect();
    let (body, parameters) = (signature.pop(), signature.pop());
    let is_async = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "async");
    let (Some(TokenTree::Group(body)), Some(TokenTree::Group(parameters)), Some(at)) =
        (body, parameters, signature.iter().position(is_async))
    else {
        return fails("`#[testkit::test]` stands before an `async fn` that returns nothing");
    };
    let run = match arguments.to_string().as_str() {
        "" => "run",
        "multi_thread" => "run_on_threads",
        _ => return fails("`#[testkit::test]` takes no argument but `multi_thread`"),
    };
    signature.remove(at);
    let [is_async, moves] = ["async", "move"].map(|word| Ident::new(word, Span::call_site()).into());
    let mut call = invoke(run, [is_async, moves, TokenTree::Group(body)]);
    if !parameters.stream().is_empty() {
        let bar = || TokenStream::from(TokenTree::from(Punct::new('|', Spacing::Alone)));
        call = invoke("over_both", [bar(), parameters.stream(), bar(), call]);
    }
    let mut test: TokenStream = "#[::core::prelude::v1::test]".parse().unwrap_or_default();
    test.extend(signature);
    test.extend(
        [Group::new(Delimiter::Parenthesis, TokenStream::new()), Group::new(Delimiter::Brace, call)]
            .map(TokenTree::from),
    );
    test
}

/// `::testkit::name(arguments)`.
fn invoke<T>(name: &str, arguments: impl IntoIterator<Item = T>) -> TokenStream
where
    TokenStream: FromIterator<T>,
{
    let mut call: TokenStream = format!("::testkit::{name}").parse().unwrap_or_default();
    call.extend([TokenTree::from(Group::new(Delimiter::Parenthesis, arguments.into_iter().collect()))]);
    call
}

/// A compile error that says `text`.
fn fails(text: &str) -> TokenStream {
    format!("::core::compile_error!({text:?});").parse().unwrap_or_default()
}
