//go:build e2e

package join_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The controller signs only a certificate that a node requests for itself.
func TestOnlyOwnServingCertificatesAreSigned(t *testing.T) {
	const user, name = "system:node:ip-10-77-1-2.eu-west-1.compute.internal", "ip-10-77-1-2.eu-west-1.compute.internal"
	for _, c := range []struct {
		user, subject string
		names         []string
		address, want string
	}{
		{user, user, []string{name}, "10.77.1.2", ""},
		{user, user, nil, "10.77.1.3", user + " requests the address 10.77.1.3"},
		{user, user, []string{"kubernetes.default"}, "10.77.1.2", user + ` requests ` + user + `, ["kubernetes.default"]`},
		{user, "system:node:other", nil, "10.77.1.2", user + " requests system:node:other, []"},
		{"admin", "admin", nil, "10.77.1.2", "admin requests admin, []"},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: c.subject}, DNSNames: c.names, IPAddresses: []net.IP{net.ParseIP(c.address)},
		}, key)
		require.NoError(t, err)
		err = claims(c.user, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, c.want)
	}
}
