package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority is a cluster's certificate authority, with all it signed in a
// folder.
type authority struct {
	folder      string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is the certificate as nodes get it.
	PEM []byte
}

// life is how long certificates are good; clusters live for minutes.
const life = 24 * time.Hour

// newAuthority makes one in a folder of its own.
func newAuthority(folder, name string) (*authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes", OrganizationalUnit: []string{name}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		IsCA:     true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	a := &authority{folder: folder, key: key, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	return a, a.write("ca", der, key)
}

// path is that of a file of the authority's: NAME.crt or NAME.key.
func (a *authority) path(file string) string { return filepath.Join(a.folder, file) }

// issue signs a certificate for a user, with groups, or for a server at an
// address.
func (a *authority) issue(file, user string, groups []string, addresses ...net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making a key for %s: %w", user, err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return fmt.Errorf("making a certificate for %s: %w", user, err)
	}
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: user, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: addresses, DNSNames: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("making a certificate for %s: %w", user, err)
	}
	return a.write(file, der, key)
}

func (a *authority) write(file string, certificate []byte, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("writing a key: %w", err)
	}
	for name, block := range map[string]pem.Block{
		file + ".crt": {Type: "CERTIFICATE", Bytes: certificate}, file + ".key": {Type: "PRIVATE KEY", Bytes: der},
	} {
		if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&block), 0o600); err != nil {
			return fmt.Errorf("writing a certificate: %w", err)
		}
	}
	return nil
}

// client is the TLS configuration of whoever the file's certificate is for.
func (a *authority) client(file string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(a.path(file+".crt"), a.path(file+".key"))
	if err != nil {
		return nil, fmt.Errorf("reading a certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, nil
}

// kubeconfig writes one for whoever the file's certificate is for.
func (a *authority) kubeconfig(file, endpoint string) error {
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, endpoint, a.path("ca.crt"), a.path(file+".crt"), a.path(file+".key"))
	if err := os.WriteFile(a.path(file+".kubeconfig"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}
