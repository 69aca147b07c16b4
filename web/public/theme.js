// Runs before the first paint, so that the page never flashes in the other theme.
;(function () {
  var chosen = null
  try {
    chosen = localStorage.getItem('omoi.theme')
  } catch {
    // Storage may be forbidden; the system's choice then stands.
  }
  var light = chosen ? chosen === 'light' : matchMedia('(prefers-color-scheme: light)').matches
  document.documentElement.dataset.theme = light ? 'light' : 'dark'
})()
