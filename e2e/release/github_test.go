//go:build release

package release

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// github starts a proxy in which github.com and api.github.com serve only the
// release in dist. It returns the proxy's address and the certificate to trust
// for both hosts.
func github(t *testing.T, dist string) (proxy string, certificate []byte) {
	site := http.NewServeMux()
	site.HandleFunc("GET api.github.com/repos/eksnode/packer-plugin-eksnode/git/matching-refs/tags", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `[{"ref": "refs/tags/v`+number+`"}]`)
	})
	site.HandleFunc("GET github.com/eksnode/packer-plugin-eksnode/releases/download/v"+number+"/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(dist, r.PathValue("file")))
	})
	server := httptest.NewUnstartedServer(site)
	pair, certificate := certify(t, "github.com", "api.github.com")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	t.Cleanup(server.Close)

	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		there, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(there, buffered) }()
		_, _ = io.Copy(here, there)
	}))
	t.Cleanup(front.Close)
	return front.URL, certificate
}

// certify makes a certificate for some hosts. It returns the key pair and the
// certificate as PEM.
func certify(t *testing.T, hosts ...string) (tls.Certificate, []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: hosts, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
