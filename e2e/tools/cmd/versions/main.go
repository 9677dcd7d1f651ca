// Command versions prints which versions in eksnode's tables are older than those of the Go
// module proxy and of the publishers, and which support ends within 90 days. Places that
// do not answer go to standard error.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

func main() {
	ctx := context.Background()
	proxies, err := exec.CommandContext(ctx, "go", "env", "GOPROXY").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, "versions: reading GOPROXY:", err)
		os.Exit(1)
	}
	proxy, _, _ := strings.Cut(strings.TrimSpace(string(proxies)), ",")
	news := tools.Compare(ctx, http.DefaultClient, strings.TrimSuffix(proxy, "/"), time.Now())
	for _, change := range news.Changes {
		fmt.Println(change)
	}
	for _, place := range news.Away {
		fmt.Fprintln(os.Stderr, "not compared with", place)
	}
}
