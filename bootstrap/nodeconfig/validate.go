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
	"unicode"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Feature reports whether a feature gate is on.
func (s Spec) Feature(name string) bool { return s.FeatureGates[name] }

var (
	clusterName   = form{100, show.Regexp(`^[0-9A-Za-z][0-9A-Za-z_-]*$`)}
	variableName  = show.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	serviceName   = form{200, show.Regexp(`^[A-Za-z0-9:_.@-]+$`)}
	hostName      = form{253, show.Regexp(`^[A-Za-z0-9._-]+$`)}
	outpostID     = form{100, show.Regexp(`^[0-9A-Za-z_-]+$`)}
	interfaceName = form{15, show.Regexp(`^[A-Za-z0-9._-]+$`)}
	domainName    = form{255, show.Regexp(`^~?[A-Za-z0-9._-]*\.?$`)}
)

// form is a regular expression and the longest text that fits. A count in the
// expression itself would take long to compile.
type form struct {
	most       int
	expression func() *regexp.Regexp
}

func (f form) fits(text string) bool { return len(text) <= f.most && f.expression().MatchString(text) }

// problems collects errors, each with the path of a field.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", Printable(path), Printable(fmt.Sprintf(format, args...))))
}

// Validate checks the merged document and returns the joined errors. It checks the
// document only, not whether the machine supports the settings.
func (c *NodeConfig) Validate() error {
	var p problems
	p.cluster(c.Spec.Cluster)
	table, err := c.Spec.Containerd.Config.Table()
	if err == nil {
		_, err = ContainerdVersion(table)
	}
	if err != nil {
		p.add("spec.containerd.config", "%v", err)
	}
	p.kubelet(c.Spec.Kubelet)
	p.localStorage(c.Spec.Instance.LocalStorage)
	CheckEnvironment(c.Spec.Instance.Environment, func(at, format string, args ...any) {
		p.add("spec.instance.environment."+at, format, args...)
	})
	p.network(c.Spec.Instance.Network)
	known := []string{FastImagePull, InstanceIDNodeName}
	for _, gate := range slices.Sorted(maps.Keys(c.Spec.FeatureGates)) {
		if !slices.Contains(known, gate) {
			p.add("spec.featureGates."+gate, "unknown feature gate; %s", show.Suggest(gate, known))
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
			p.add(at+f.name, "is missing; `aws eks describe-cluster` shows the value")
		}
	}
	if c.Name != "" {
		if err := CheckClusterName(c.Name); err != nil {
			p.add(at+"name", "%v", err)
		}
	}
	if c.APIServerEndpoint != "" {
		if _, err := ReadEndpoint(c.APIServerEndpoint); err != nil {
			p.add(at+"apiServerEndpoint", "%v", err)
		}
	}
	if c.CIDR != "" {
		if _, err := netip.ParsePrefix(c.CIDR); err != nil {
			p.add(at+"cidr", "%q is no network such as 10.100.0.0/16 or fd00:1234::/108", c.CIDR)
		}
	}
	if c.Outpost() && c.ID == "" {
		p.add(at+"id", "is missing; a local cluster on an Outpost is identified by this ID")
	}
	if c.ID != "" {
		if err := CheckOutpostID(c.ID); err != nil {
			p.add(at+"id", "%v", err)
		}
	}
}

// CheckClusterName checks the name of a cluster.
func CheckClusterName(name string) error {
	if !clusterName.fits(name) {
		return fmt.Errorf("%q is not a cluster name: up to 100 letters, digits, - and _", name)
	}
	return nil
}

// CheckOutpostID checks the ID of a local cluster.
func CheckOutpostID(id string) error {
	if !outpostID.fits(id) {
		return fmt.Errorf("%q is not an ID of a local cluster: up to 100 letters, digits, - and _", id)
	}
	return nil
}

// CheckEndpoint checks the address of an API server. The address is written to
// kubeconfigs, and its host to /etc/hosts, without quoting.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	isPlain := !strings.ContainsFunc(endpoint,
		func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'\\`<>", r) })
	if err != nil || !isPlain || u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!isHost(u.Hostname()) {
		return fmt.Errorf("%q must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com", endpoint)
	}
	return nil
}

// ReadEndpoint checks the address of an API server for first boot, which also accepts
// addresses without TLS or without a scheme. It returns a warning for such an address.
func ReadEndpoint(endpoint string) (warning string, err error) {
	scheme, rest, found := strings.Cut(endpoint, "://")
	if !found {
		rest = endpoint
	}
	if found && strings.EqualFold(scheme, "https") || found && !strings.EqualFold(scheme, "http") {
		return "", CheckEndpoint(endpoint)
	}
	if name, _, _ := strings.Cut(rest, "/"); CheckEndpoint("https://"+rest) != nil || !found &&
		!strings.ContainsAny(name, ".:") {
		return "", CheckEndpoint(endpoint)
	}
	if !found {
		return fmt.Sprintf("%q names no scheme: the kubelet takes https; write https://%s", endpoint, endpoint), nil
	}
	return fmt.Sprintf("%q is not https: the kubelet sends its credentials unencrypted", endpoint), nil
}

// EndpointHost returns the host of an API server's address, without the port.
func EndpointHost(endpoint string) (string, error) {
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("reading the endpoint: %w", err)
	}
	return u.Hostname(), nil
}

// Warnings lists settings of a valid document that are probably mistakes.
func (c *NodeConfig) Warnings() []string {
	if warning, _ := ReadEndpoint(c.Spec.Cluster.APIServerEndpoint); warning != "" {
		return []string{"spec.cluster.apiServerEndpoint: " + warning}
	}
	return nil
}

func isHost(name string) bool {
	_, err := netip.ParseAddr(name)
	return hostName.fits(name) || err == nil && !strings.Contains(name, "%")
}

// CheckFlags checks kubelet arguments that become part of a line of an environment
// file.
func CheckFlags(arguments string) []error {
	var errs []error
	if err := CheckLine(arguments); err != nil {
		errs = append(errs, fmt.Errorf("a flag %w", err))
	}
	if _, open := split(arguments); open != "" { // the quote would include all following arguments
		errs = append(errs, fmt.Errorf("%s is not closed in %s", open, Printable(arguments)))
	}
	if strings.HasSuffix(arguments, `\`) {
		errs = append(errs, errors.New(`a flag must not end in \, which takes away what follows`))
	}
	return errs
}

// Split splits kubelet arguments like systemd (systemd.service(5), "Command lines"): at
// spaces outside of quotes. The quotes are removed. A backslash is an ordinary
// character.
func Split(arguments string) []string {
	words, _ := split(arguments)
	return words
}

func split(arguments string) (words []string, openQuote string) {
	open, within := rune(0), false
	var word strings.Builder
	end := func() {
		if within {
			words = append(words, word.String())
		}
		word.Reset()
		within = false
	}
	for _, c := range arguments {
		switch {
		case open == 0 && (c == '"' || c == '\''):
			open, within = c, true
		case open != 0 && c == open:
			open = 0
		case open == 0 && unicode.IsSpace(c):
			end()
		default:
			word.WriteRune(c)
			within = true
		}
	}
	end()
	if open != 0 {
		openQuote = string(open)
	}
	return words, openQuote
}

func (p *problems) kubelet(k Kubelet) {
	for i, flag := range k.Flags {
		for _, err := range CheckFlags(strings.TrimSpace(flag)) {
			p.add(fmt.Sprintf("spec.kubelet.flags[%d]", i), "%v", err)
		}
	}
	if _, err := k.CompileMaxPods(); err != nil {
		p.add("spec.kubelet.maxPodsExpression", "%v", err)
	}
}

func (p *problems) localStorage(s LocalStorage) {
	const at = "spec.instance.localStorage."
	if s.Strategy != "" && !slices.Contains(strategies, s.Strategy) {
		p.add(at+"strategy", "unknown value %q; %s", s.Strategy, show.Suggest(s.Strategy, strategies))
	}
	if s.MountPath != "" && (!path.IsAbs(s.MountPath) || path.Clean(s.MountPath) == "/" ||
		strings.ContainsAny(s.MountPath, " \t\r\n%\\\"'") || CheckLine(s.MountPath) != nil) {
		p.add(at+"mountPath", "%q must be an absolute path below / without spaces, quotes, %% and \\", s.MountPath)
	}
	for _, folder := range []string{"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/soci-snapshotter-grpc",
		"/var/log/pods"} {
		if strings.HasPrefix(path.Clean(s.MountPath)+"/", folder+"/") {
			p.add(at+"mountPath", "%q lies in %s, which lies on the instance store itself", s.MountPath, folder)
		}
	}
	mounts := []string{DisableContainerd, DisablePodLogs, DisableSOCI}
	for i, m := range s.DisabledMounts {
		if !slices.Contains(mounts, m) {
			p.add(fmt.Sprintf("%sdisabledMounts[%d]", at, i), "unknown value %q; %s", m, show.Suggest(m, mounts))
		}
	}
}

// CheckEnvironment adds what is wrong with variables by service. at is the service, or
// the service and the variable.
func CheckEnvironment(services map[string]map[string]string, add func(at, format string, args ...any)) {
	for _, service := range slices.Sorted(maps.Keys(services)) {
		if !serviceName.fits(service) {
			add(service, "%q is not a service name", service)
		}
		for _, name := range slices.Sorted(maps.Keys(services[service])) {
			if !variableName().MatchString(name) {
				add(service+"."+name, "%q is not a variable name", name)
			}
			if err := CheckLine(services[service][name]); err != nil {
				add(service+"."+name, "the value %v", err)
			}
		}
	}
}

// SystemdEnvironment is a file with which systemd gives variables to a service, or to all
// for DefaultEnvironment. Backslashes and quotes are as in C (systemd.syntax(7)), percent
// signs doubled (systemd.unit(5)).
func SystemdEnvironment(service string, variables map[string]string) string {
	section, setting := "Service", "Environment"
	if service == DefaultEnvironment {
		section, setting = "Manager", "DefaultEnvironment"
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`)
	text := "[" + section + "]\n"
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		text += fmt.Sprintf("%s=\"%s=%s\"\n", setting, name, escape.Replace(variables[name]))
	}
	return text
}

func (p *problems) network(n Network) {
	for i, server := range n.Nameservers {
		if !isNameserver(server) {
			p.add(fmt.Sprintf("spec.instance.network.nameservers[%d]", i), "%q is no address", server)
		}
	}
	for i, d := range n.Domains {
		if d == "" || !domainName.fits(d) {
			p.add(fmt.Sprintf("spec.instance.network.domains[%d]", i), "%q is not a domain name", d)
		}
	}
}

// isNameserver checks the form of resolved.conf(5):
// ADDRESS[:PORT][%INTERFACE][#NAME].
func isNameserver(server string) bool {
	address, name, named := strings.Cut(server, "#")
	address, link, linked := strings.Cut(address, "%")
	if named && !hostName.fits(name) || linked && !interfaceName.fits(link) {
		return false
	}
	_, err := netip.ParseAddr(address)
	if err != nil {
		_, err = netip.ParseAddrPort(address)
	}
	return err == nil
}

// ClusterDNS returns the address of the cluster's DNS in the services' network, in Amazon's
// form: the last group of the network's address becomes 10, or a for IPv6.
func ClusterDNS(network netip.Addr) string {
	if network.Is4() {
		b := network.As4()
		b[3] = 10
		return netip.AddrFrom4(b).String()
	}
	b := network.As16()
	b[14], b[15] = 0, 10
	return netip.AddrFrom16(b).String()
}
