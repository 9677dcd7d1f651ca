package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/cel"
)

// The variables of Kubelet.MaxPodsExpression.
const (
	// DefaultENIs is how many interfaces the default network card takes.
	DefaultENIs = "default_enis"
	// IPsPerENI is how many IPv4 addresses one interface takes.
	IPsPerENI = "ips_per_eni"
	// MaxPods is what would be used without an expression.
	MaxPods = "max_pods"
	// VCPUs and PhysicalMemoryMiB are how large the instance type is.
	VCPUs             = "vcpus"
	PhysicalMemoryMiB = "physical_memory_mib"
)

// CompileMaxPods compiles the expression; without one it is nil.
func (k Kubelet) CompileMaxPods() (*cel.Expression, error) {
	if k.MaxPodsExpression == "" {
		return nil, nil
	}
	return cel.Compile(k.MaxPodsExpression, DefaultENIs, IPsPerENI, MaxPods, VCPUs, PhysicalMemoryMiB)
}

// AsksForSize says whether the expression needs what only EC2 knows.
func (k Kubelet) AsksForSize() bool {
	e, err := k.CompileMaxPods()
	return err == nil && e != nil && e.Uses(VCPUs, PhysicalMemoryMiB)
}

// Feature says whether a feature gate is on.
func (s Spec) Feature(name string) bool { return s.FeatureGates[name] }

var (
	clusterName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`) })
	variableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })
	serviceName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9:_.@-]+$`) })
	domainName   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^~?[A-Za-z0-9._-]*\.?$`) })
)

// problems collects what is wrong, by path.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// Validate says everything that is wrong with the merged document, joined. It
// asks nobody: what a machine cannot do is found when it is planned.
func (c *NodeConfig) Validate() error {
	var p problems
	p.cluster(c.Spec.Cluster)
	p.containerd(c.Spec.Containerd)
	p.kubelet(c.Spec.Kubelet)
	p.localStorage(c.Spec.Instance.LocalStorage)
	p.environment(c.Spec.Instance.Environment)
	p.network(c.Spec.Instance.Network)
	known := map[string]bool{InstanceIDNodeName: true, FastImagePull: true}
	for _, gate := range slices.Sorted(maps.Keys(c.Spec.FeatureGates)) {
		if !known[gate] {
			p.add("spec.featureGates."+gate, "unknown feature gate; %s", nearest(gate, known))
		}
	}
	return errors.Join(p...)
}

func (p *problems) cluster(c Cluster) {
	const at = "spec.cluster."
	for _, f := range []struct {
		name  string
		empty bool
	}{
		{"name", c.Name == ""}, {"apiServerEndpoint", c.APIServerEndpoint == ""},
		{"certificateAuthority", len(c.CertificateAuthority) == 0}, {"cidr", c.CIDR == ""},
	} {
		if f.empty {
			p.add(at+f.name, "is missing; `aws eks describe-cluster` tells it")
		}
	}
	if c.Name != "" && !clusterName().MatchString(c.Name) {
		p.add(at+"name", "%q is no cluster's name: up to 100 letters, digits, - and _", c.Name)
	}
	if c.APIServerEndpoint != "" {
		if err := CheckEndpoint(c.APIServerEndpoint); err != nil {
			p.add(at+"apiServerEndpoint", "%v", err)
		}
	}
	if c.CIDR != "" {
		if _, err := netip.ParsePrefix(c.CIDR); err != nil {
			p.add(at+"cidr", "%q is no network such as 10.100.0.0/16 or fd00:1234::/108", c.CIDR)
		}
	}
	if c.Outpost() && c.ID == "" {
		p.add(at+"id", "is missing; a local cluster on an Outpost is known by its id")
	}
}

// CheckEndpoint says what is wrong with the address of an API server.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.ContainsAny(endpoint, " \t\r\n\"'") {
		return fmt.Errorf("%q must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com", endpoint)
	}
	return nil
}

func (p *problems) containerd(c Containerd) {
	if _, err := c.Config.Table(); err != nil {
		p.add("spec.containerd.config", "%v", err)
	}
}

// OpenQuote is the quote that is not closed in kubelet arguments; empty for none.
// An open one swallows whatever follows.
func OpenQuote(arguments string) string {
	_, open := split(arguments)
	return open
}

// Split takes kubelet arguments apart as systemd does (systemd.service(5),
// "Command lines"): at spaces outside of quotes, which go. A backslash is none
// of its own.
func Split(arguments string) []string {
	words, _ := split(arguments)
	return words
}

func split(arguments string) (words []string, openQuote string) {
	open, within := rune(0), false
	word := ""
	for _, c := range arguments {
		switch {
		case open == 0 && (c == '"' || c == '\''):
			open, within = c, true
		case open != 0 && c == open:
			open = 0
		case open == 0 && unicode.IsSpace(c):
			if within {
				words = append(words, word)
			}
			word, within = "", false
		default:
			word, within = word+string(c), true
		}
	}
	if within {
		words = append(words, word)
	}
	if open != 0 {
		openQuote = string(open)
	}
	return words, openQuote
}

func (p *problems) kubelet(k Kubelet) {
	for i, flag := range k.Flags {
		if strings.ContainsAny(strings.TrimSpace(flag), "\r\n\x00") {
			p.add(fmt.Sprintf("spec.kubelet.flags[%d]", i), "a flag must be on one line")
		}
		if open := OpenQuote(flag); open != "" {
			p.add(fmt.Sprintf("spec.kubelet.flags[%d]", i), "%s is not closed in %s", open, flag)
		}
	}
	if _, err := k.CompileMaxPods(); err != nil {
		p.add("spec.kubelet.maxPodsExpression", "%v", err)
	}
}

func (p *problems) localStorage(s LocalStorage) {
	const at = "spec.instance.localStorage."
	strategies := map[string]bool{RAID0: true, RAID10: true, Mount: true}
	if s.Strategy != "" && !strategies[s.Strategy] {
		p.add(at+"strategy", "unknown value %q; %s", s.Strategy, nearest(s.Strategy, strategies))
	}
	if s.MountPath != "" && (!path.IsAbs(s.MountPath) || path.Clean(s.MountPath) == "/" || strings.ContainsAny(s.MountPath, " \t\r\n%\\\"'")) {
		p.add(at+"mountPath", "%q must be an absolute path below / without spaces, quotes, %% and \\", s.MountPath)
	}
	mounts := map[string]bool{DisableContainerd: true, DisablePodLogs: true}
	for i, m := range s.DisabledMounts {
		if !mounts[m] {
			p.add(fmt.Sprintf("%sdisabledMounts[%d]", at, i), "unknown value %q; %s", m, nearest(m, mounts))
		}
	}
}

func (p *problems) environment(services map[string]map[string]string) {
	for _, service := range slices.Sorted(maps.Keys(services)) {
		at := "spec.instance.environment." + service
		if !serviceName().MatchString(service) {
			p.add(at, "%q is no service's name", service)
		}
		for _, name := range slices.Sorted(maps.Keys(services[service])) {
			if !variableName().MatchString(name) {
				p.add(at+"."+name, "%q is no variable's name", name)
			}
			if strings.ContainsAny(services[service][name], "\r\n\x00") {
				p.add(at+"."+name, "the value must be on one line")
			}
		}
	}
}

func (p *problems) network(n Network) {
	for i, server := range n.Nameservers {
		// resolved.conf(5): ADDRESS[:PORT][%INTERFACE][#NAME]
		address, _, _ := strings.Cut(server, "#")
		address, _, _ = strings.Cut(address, "%")
		if _, err := netip.ParseAddr(address); err == nil {
			continue
		}
		if _, err := netip.ParseAddrPort(address); err != nil || strings.ContainsAny(server, " \t\r\n") {
			p.add(fmt.Sprintf("spec.instance.network.nameservers[%d]", i), "%q is no address", server)
		}
	}
	for i, d := range n.Domains {
		if d == "" || !domainName().MatchString(d) {
			p.add(fmt.Sprintf("spec.instance.network.domains[%d]", i), "%q is no domain's name", d)
		}
	}
}
