//! Routes and what describes them. The description of all is work that only the document needs: a start does without it.

use axum::{Router, routing::MethodRouter};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::Api;

/// Handlers of one path, and how they are described.
pub type Described = (String, MethodRouter<Api>, fn() -> UtoipaMethodRouter<Api>);

#[derive(Default)]
pub struct Routes {
    router: Router<Api>,
    descriptions: Vec<fn() -> UtoipaMethodRouter<Api>>,
}

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn routes(mut self, (path, handlers, description): Described) -> Self {
        self.router = self.router.route(&path, handlers);
        self.descriptions.push(description);
        self
    }

    pub fn into_router(self) -> Router<Api> {
        self.router
    }

    pub fn describe(self, document: OpenApiRouter<Api>) -> OpenApiRouter<Api> {
        self.descriptions.into_iter().fold(document, |document, description| document.routes(description()))
    }
}

/// Handlers of one path that `utoipa::path` describes, for [`Routes::routes`].
macro_rules! routes {
    ($first:ident $(, $more:ident)*) => {{
        use utoipa::Path as _;
        use utoipa_axum::PathItemExt as _;
        let handlers = axum::routing::MethodRouter::new();
        utoipa_axum::paste! {
            let handlers = [<__path_ $first>]::methods().iter().fold(handlers, |all, method| all.on(method.to_method_filter(), $first));
            $(let handlers = [<__path_ $more>]::methods().iter().fold(handlers, |all, method| all.on(method.to_method_filter(), $more));)*
            let path = [<__path_ $first>]::path();
        }
        let description: fn() -> utoipa_axum::router::UtoipaMethodRouter<$crate::http::Api> =
            || utoipa_axum::routes!($first $(, $more)*);
        (path, handlers, description)
    }};
}

pub(super) use routes;
