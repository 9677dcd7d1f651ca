package lab

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// Metadata is the instance metadata service of a lab. It identifies each
// instance by its address.
type Metadata struct {
	mutex    sync.Mutex
	services map[netip.Addr]http.Handler
}

// ServeMetadata starts the service at its address, which exists in the lab
// only.
func (l *Lab) ServeMetadata(t *testing.T) *Metadata {
	t.Helper()
	m := &Metadata{services: map[netip.Addr]http.Handler{}}
	address := netip.MustParseAddr("169.254.169.254")
	require.NoError(t, l.AddAddress(l.Ctx, address))
	require.NoError(t, l.Serve(l.Ctx, netip.AddrPortFrom(address, 80).String(), m))
	return m
}

// ServeHTTP implements http.Handler.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	m.mutex.Lock()
	service := m.services[from.Addr()]
	m.mutex.Unlock()
	if err != nil || service == nil {
		http.Error(w, "no instance has the address "+r.RemoteAddr, http.StatusForbidden)
		return
	}
	service.ServeHTTP(w, r)
}

// Answer sets the handler for the instance at an address.
func (m *Metadata) Answer(address netip.Addr, by http.Handler) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.services[address] = by
}

// NodeName returns EC2's private DNS name for an address.
func NodeName(address netip.Addr) string {
	return "ip-" + strings.ReplaceAll(address.String(), ".", "-") + ".eu-west-1.compute.internal"
}

// Instance describes the instance with that address, in eu-west-1.
func Instance(id string, address netip.Addr, userData []byte) imdstest.Instance {
	i := imdstest.Typical()
	i.ID, i.MAC, i.IPv4, i.Hostname, i.UserData = id, machine.MAC(address).String(), address.String(), NodeName(address), userData
	return i
}
