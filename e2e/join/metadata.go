package join

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// Where all instances are.
const (
	region = "eu-west-1"
	zone   = "eu-west-1a"
)

// metadataAddress is the metadata service's; it exists in the lab only.
var metadataAddress = netip.MustParseAddr("169.254.169.254")

// Metadata is the instance metadata service: it answers each instance, told by
// its address, about itself.
type Metadata struct {
	identities *Identities
	mutex      sync.Mutex
	services   map[netip.Addr]*imdstest.Service
	watchers   map[netip.Addr]func(entry string)
}

// serveMetadata starts the service in a lab.
func serveMetadata(ctx context.Context, lab *machine.Lab, identities *Identities) (*Metadata, error) {
	m := &Metadata{identities: identities, services: map[netip.Addr]*imdstest.Service{}, watchers: map[netip.Addr]func(string){}}
	if err := lab.AddAddress(ctx, metadataAddress); err != nil {
		return nil, err
	}
	return m, lab.Serve(ctx, netip.AddrPortFrom(metadataAddress, 80).String(), m)
}

// ServeHTTP implements http.Handler.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	address, err := netip.ParseAddr(host)
	m.mutex.Lock()
	service, watch := m.services[address], m.watchers[address]
	m.mutex.Unlock()
	if err != nil || service == nil {
		http.Error(w, "no instance has the address "+host, http.StatusForbidden)
		return
	}
	if watch != nil {
		watch(strings.TrimPrefix(r.URL.Path, "/latest/"))
	}
	service.ServeHTTP(w, r)
}

// watch has a function called before each answer to the instance at an address.
func (m *Metadata) watch(address netip.Addr, called func(entry string)) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.watchers[address] = called
}

// launch makes an instance known, with credentials of its own, and returns
// whom AWS takes it for.
func (m *Metadata) launch(id, role string, address netip.Addr, userData []byte) (Identity, error) {
	who := Identity{
		ID: id, Role: role,
		PrivateDNSName: "ip-" + strings.ReplaceAll(address.String(), ".", "-") + "." + region + ".compute.internal",
		AccessKeyID:    "ASIA" + rand.Text()[:16], SecretKey: rand.Text(), SessionToken: rand.Text(),
	}
	octets := address.As4()
	instance := imdstest.Instance{
		ID: id, Type: "m5.large", Region: region, Zone: zone, MAC: machine.MAC(address).String(),
		Hostname: who.PrivateDNSName, IPv4: address.String(),
		VPCCIDRs: []string{fmt.Sprintf("%d.%d.0.0/16", octets[0], octets[1])},
		Domain:   "amazonaws.com", Role: role, UserData: userData,
	}
	entries := instance.Entries()
	credentials, err := json.Marshal(map[string]string{
		"Code": "Success", "AccessKeyId": who.AccessKeyID, "SecretAccessKey": who.SecretKey, "Token": who.SessionToken,
		"Expiration": "2036-01-01T00:00:00Z",
	})
	if err != nil {
		return who, fmt.Errorf("writing the credentials of %s: %w", id, err)
	}
	entries["meta-data/iam/security-credentials/"+role] = string(credentials)
	service := imdstest.New(instance)
	service.Set(func(s *imdstest.Settings) { s.Entries = entries })
	m.mutex.Lock()
	m.services[address] = service
	m.mutex.Unlock()
	m.identities.add(who)
	return who, nil
}
