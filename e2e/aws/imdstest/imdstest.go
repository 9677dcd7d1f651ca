// Package imdstest is an instance metadata service on loopback, for tests. It
// requires tokens, as the real service does, and can fail in every way that has
// been seen.
package imdstest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Token is the token that the service issues and requires.
const Token = "AQAEAGdpdmVuLW91dC1ieS1hLWZha2U="

const ttlHeader = "X-aws-ec2-metadata-token-ttl-seconds"

// Instance is the data that the service returns. Zero values are left out.
type Instance struct {
	ID, Type, Region, Zone, MAC string
	Hostname, IPv4, IPv6        string
	VPCCIDRs                    []string
	Domain, Role                string
	UserData                    []byte
}

// Typical is an instance in eu-west-1.
func Typical() Instance {
	return Instance{
		ID: "i-0123456789abcdef0", Type: "m5.large", Region: "eu-west-1", Zone: "eu-west-1a", MAC: "02:00:00:00:00:01",
		Hostname: "ip-10-0-1-2.eu-west-1.compute.internal", IPv4: "10.0.1.2", VPCCIDRs: []string{"10.0.0.0/16"},
		Domain: "amazonaws.com", Role: "node",
	}
}

// Entries are the instance's metadata by path below /latest/.
func (i Instance) Entries() map[string]string {
	document, err := json.Marshal(map[string]string{
		"instanceId": i.ID, "instanceType": i.Type, "region": i.Region, "availabilityZone": i.Zone, "architecture": "x86_64",
	})
	if err != nil {
		panic(err) // a map of texts
	}
	all := map[string]string{
		"dynamic/instance-identity/document": string(document),
		"meta-data/instance-type":            i.Type, "meta-data/mac": i.MAC, "meta-data/local-hostname": i.Hostname,
		"meta-data/local-ipv4": i.IPv4, "meta-data/services/domain": i.Domain, "user-data": string(i.UserData),
		"meta-data/network/interfaces/macs/" + i.MAC + "/ipv6s":                strings.TrimSpace(i.IPv6),
		"meta-data/network/interfaces/macs/" + i.MAC + "/vpc-ipv4-cidr-blocks": strings.Join(i.VPCCIDRs, "\n"),
		"meta-data/iam/security-credentials/":                                  i.Role,
	}
	if i.Role != "" {
		all["meta-data/iam/security-credentials/"+i.Role] = `{"Code":"Success","AccessKeyId":"ASIAFAKE","SecretAccessKey":"secret","Token":"session","Expiration":"2036-01-01T00:00:00Z"}`
	}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

// Service answers like the metadata service. Set changes its settings at any time.
type Service struct {
	// Server is the loopback server, when Serve made the service.
	*httptest.Server
	mu       sync.Mutex
	settings Settings
	requests []string
}

// Settings are how the service behaves.
type Settings struct {
	Entries map[string]string
	// Fail makes that many first requests fail with Status; below 0 all.
	Fail   int
	Status int
	// Delay is the delay of each answer.
	Delay time.Duration
	// TokenLife is the number of requests for which a token is valid; 0 means no
	// limit.
	TokenLife int
	// Garbage answers everything with an HTML page.
	Garbage bool

	token, used int
}

// New returns a service for an instance. The caller serves it.
func New(i Instance) *Service { return &Service{settings: Settings{Entries: i.Entries()}} }

// Serve starts a service for an instance on loopback.
func Serve(i Instance) *Service {
	s := New(i)
	s.Server = httptest.NewServer(s)
	return s
}

// Set changes how the service behaves.
func (s *Service) Set(change func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
}

// Requests are the requested paths, in order.
func (s *Service) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, body, delay := s.answer(r)
	if ttl := r.Header.Get(ttlHeader); ttl != "" && strings.HasPrefix(body, Token) {
		w.Header().Set(ttlHeader, ttl)
	}
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may have gone
}

func (s *Service) answer(r *http.Request) (status int, body string, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.settings
	s.requests = append(s.requests, strings.TrimPrefix(r.URL.Path, "/latest/"))
	delay = o.Delay
	switch {
	case o.Garbage:
		return http.StatusOK, "<html><body>captive portal</body></html>", delay
	case o.Fail != 0:
		o.Fail--
		return o.Status, "", delay
	case r.URL.Path == "/latest/api/token":
		if life, err := strconv.Atoi(r.Header.Get(ttlHeader)); r.Method != http.MethodPut || err != nil || life < 1 || life > 21600 {
			return http.StatusBadRequest, "", delay
		}
		o.token, o.used = o.token+1, 0
		return http.StatusOK, Token + strconv.Itoa(o.token), delay
	case r.Header.Get("X-aws-ec2-metadata-token") != Token+strconv.Itoa(o.token), o.TokenLife > 0 && o.used >= o.TokenLife:
		return http.StatusUnauthorized, "", delay
	}
	o.used++
	if value, ok := o.Entries[strings.TrimPrefix(r.URL.Path, "/latest/")]; ok {
		return http.StatusOK, value, delay
	}
	return http.StatusNotFound, "", delay
}
