//go:build e2e

package firstboot_test

import (
	"encoding/base64"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
)

// cluster is a minimal API server, as a node sees an API server that does not
// know the node: it has a certificate, reads tokens, and returns Unauthorized.
type cluster struct {
	name, endpoint string
	ca             []byte

	mutex sync.Mutex
	asked map[string]bool // addresses of nodes that sent a token
}

// cluster starts a cluster at a port of the lab.
func (w *world) cluster(name, port string) *cluster {
	t := w.t
	t.Helper()
	certificate, key := filepath.Join(t.TempDir(), "crt"), filepath.Join(t.TempDir(), "key")
	out, err := exec.CommandContext(w.Ctx, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN="+name, "-addext", "subjectAltName=IP:"+w.HostAddress(), "-keyout", key, "-out", certificate).CombinedOutput()
	require.NoError(t, err, "%s", out)
	c := &cluster{name: name, endpoint: "https://" + w.Port(port), ca: []byte(lab.Content(t, certificate)), asked: map[string]bool{}}
	listener, err := w.Listen(w.Ctx, "tcp", w.Port(port))
	require.NoError(t, err)
	server := &http.Server{Handler: c}
	go func() { _ = server.ServeTLS(listener, certificate, key) }() // Serve returns ErrServerClosed
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer k8s-aws-v1.") {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		c.mutex.Lock()
		c.asked[host] = true
		c.mutex.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`))
}

// askedBy reports whether a node has sent a token of AWS's form.
func (c *cluster) askedBy(n *node) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.asked[n.Address().String()]
}

// forget deletes the record of a node's token.
func (c *cluster) forget(n *node) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.asked, n.Address().String())
}

// base64CA returns the certificate authority in the form of both contracts.
func (c *cluster) base64CA() string { return base64.StdEncoding.EncodeToString(c.ca) }
