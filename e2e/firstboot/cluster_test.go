//go:build e2e

package firstboot_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cluster is as much of an API server as a node sees that it does not know: it
// has a certificate, takes tokens, and lets nobody in.
type cluster struct {
	name, endpoint string
	ca             []byte

	mutex sync.Mutex
	asked map[string]bool // addresses of nodes that came with a token
}

// cluster starts one at a port of the lab.
func (l *lab) cluster(name, port string) *cluster {
	l.t.Helper()
	address := net.JoinHostPort(l.HostAddress(), port)
	c := &cluster{name: name, endpoint: "https://" + address, asked: map[string]bool{}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(l.t, err)
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.ParseIP(l.HostAddress())},
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	require.NoError(l.t, err)
	c.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	listener, err := l.Listen(l.ctx, "tcp", address)
	require.NoError(l.t, err)
	server := &http.Server{Handler: c, TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	go func() { _ = server.ServeTLS(listener, "", "") }() // it returns ErrServerClosed
	l.t.Cleanup(func() { assert.NoError(l.t, server.Close()) })
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

// askedBy says whether a node has come, as somebody whom AWS knows.
func (c *cluster) askedBy(n *node) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.asked[n.Address().String()]
}

// forget lets a node have never come.
func (c *cluster) forget(n *node) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.asked, n.Address().String())
}

// base64CA is the certificate authority as both contracts take it.
func (c *cluster) base64CA() string { return base64.StdEncoding.EncodeToString(c.ca) }
