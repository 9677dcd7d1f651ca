//go:build full

package page

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A browser shows every text of a hostile report, runs nothing, asks nobody, and says
// nothing on its console. It needs Debian's package chromium.
func TestABrowserShowsThePage(t *testing.T) {
	text, err := Of("x.html", "report of "+hostile, nil, hostileReport())
	require.NoError(t, err)
	// Without this page, the silence of the other one would prove nothing.
	loud := strings.NewReplacer("Content-Security-Policy", "none",
		"</body>", "<script>console.error('seen')</script><img src=a><img src=http://example.com/b></body>").Replace(string(text))
	for name, c := range map[string]struct {
		page    string
		console bool
		asked   []string
	}{"the page": {page: string(text)}, "a page with a script": {loud, true, []string{"/a", "/b"}}} {
		for _, width := range []int{400, 1200} {
			t.Run(fmt.Sprint(name, ", ", width), func(t *testing.T) {
				var mutex sync.Mutex
				var asked []string
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/page.html":
						w.Header().Set("Content-Type", "text/html; charset=utf-8")
						_, _ = w.Write([]byte(c.page))
					case "/favicon.ico": // every browser asks for it
					default:
						if r.Referer() != "" { // the browser's own requests have no page
							mutex.Lock()
							defer mutex.Unlock()
							asked = append(asked, r.URL.Path)
						}
					}
				}))
				defer server.Close()
				// All names are those of the test's server, so that no request is lost.
				cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
					"--enable-logging=stderr", "--user-data-dir="+t.TempDir(), fmt.Sprintf("--window-size=%d,900", width),
					"--host-resolver-rules=MAP * "+server.Listener.Addr().String(), "--dump-dom", server.URL+"/page.html")
				var errOut strings.Builder
				cmd.Stderr = &errOut
				out, err := cmd.Output()
				require.NoError(t, err, errOut.String())
				shown := html.UnescapeString(string(out))
				for _, want := range []string{"remove the key", "Exceptions", "sha256:ab", "<script>alert(1)</script>"} {
					assert.Contains(t, shown, want)
				}
				assert.Equal(t, c.console, strings.Contains(errOut.String(), ":CONSOLE"), errOut.String())
				assert.ElementsMatch(t, c.asked, asked)
			})
		}
	}
}
