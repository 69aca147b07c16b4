//! A client of the Model Context Protocol: programs and addresses that offer tools. It starts and asks them, and shows
//! their tools as the agent's own. It takes nothing from them but tools, and offers them nothing.

mod content;
mod error;
mod http;
mod offer;
mod rpc;
mod servers;
mod session;
mod stdio;
#[cfg(test)]
mod tests;

pub use servers::Mcp;
