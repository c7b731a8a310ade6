//! What the laboratory shows: pages of findings, comparisons of runs, the page of the rivals.

pub mod compare;
mod html;
mod markdown;
mod page;
mod rivals;
mod saved;
mod svg;

pub use html::render as render_html;
pub use markdown::render as render_markdown;
pub use page::Page;
pub use rivals::render as render_rivals;
