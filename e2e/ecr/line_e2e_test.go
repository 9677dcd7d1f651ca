//go:build e2e

package ecr

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// host is the registry's name.
const host = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

// line is a proxy to the registry. It breaks every connection after budget
// bytes from the registry; a negative budget is no limit.
type line struct {
	to     atomic.Pointer[string]
	bytes  atomic.Int64
	budget atomic.Int64
}

// way is the proxy of this process and its children.
var way = &line{}

// folder has the certificate, its key, and the registry's storage.
var folder string

// prepare makes certificate and proxy, and points Go's HTTP client to both.
func prepare() error {
	var err error
	if folder, err = os.MkdirTemp(filepath.Dir(os.Getenv(registryProgram)), "run-"); err != nil {
		return err
	}
	if err := certify(folder); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	way.budget.Store(-1)
	go func() { _ = http.Serve(listener, way) }() // until the process ends
	for name, value := range map[string]string{
		"SSL_CERT_FILE": filepath.Join(folder, "ca.pem"), "HTTPS_PROXY": "http://" + listener.Addr().String(),
		"HTTP_PROXY": "", "NO_PROXY": "", "no_proxy": "", "https_proxy": "", "AWS_CA_BUNDLE": "", "XDG_CACHE_HOME": folder,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// certify writes a self-signed certificate for the host.
func certify(folder string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	write := func(name, kind string, raw []byte) error {
		return os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600)
	}
	return errors.Join(write("ca.pem", "CERTIFICATE", raw), write("key.pem", "EC PRIVATE KEY", private))
}

// ServeHTTP tunnels to the registry only.
func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	to := l.to.Load()
	if r.Method != http.MethodConnect || r.Host != host+":443" || to == nil {
		http.Error(w, fmt.Sprintf("%s %s: nothing is there", r.Method, r.Host), http.StatusBadGateway)
		return
	}
	there, err := net.Dial("tcp", *to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
	l.copy(here, there)
}

// copy forwards the registry's bytes within the budget.
func (l *line) copy(here io.Writer, there io.Reader) {
	buffer := [4 << 10]byte{}
	for {
		n, err := there.Read(buffer[:])
		if budget := l.budget.Load(); budget >= 0 && l.bytes.Load()+int64(n) > budget {
			return
		}
		l.bytes.Add(int64(n))
		if _, writeErr := here.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// set resets the byte count and sets a budget.
func (l *line) set(budget int64) {
	l.bytes.Store(0)
	l.budget.Store(budget)
}
