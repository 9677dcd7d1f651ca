package provisioner

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// The supported minor versions of Kubernetes 1. Before 1.24 the kubelet needs
// dockershim. The last is the newest whose flags and configuration this version of
// eksnode supports.
const (
	oldestMinor = 24
	newestMinor = 37
)

// Minors lists the supported minor versions of Kubernetes, such as 1.36, the
// oldest first.
func Minors() []string {
	var list []string
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		list = append(list, fmt.Sprintf("1.%d", minor))
	}
	return list
}

var (
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	sumForm     = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
	packageForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z+._-]*$`)
	sysctlForm  = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_-]*(\.[0-9A-Za-z_-][0-9A-Za-z_/-]*)+$`)
)

// minor is the minor version of the kubelet; 0 while it is not known.
func (s Spec) minor() int {
	minor, _ := version.Minor(s.KubernetesVersion)
	return minor
}

// Validate checks a spec without a machine, and with the field distro also against
// that distribution. It returns all problems, each with its field and the allowed
// values.
func (s Spec) Validate() error { return s.validate(s.validateKubernetes()) }

// ValidateWithoutVersion is Validate for a template whose Kubernetes version is not
// known yet.
func (s Spec) ValidateWithoutVersion() error { return s.validate(nil) }

// problems are what is wrong with a spec, each with its field.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, surface.Errorf(format, args...)) }

func (s Spec) validate(version error) error {
	_, unknown := s.releases()
	_, unwanted := s.wanted()
	p := problems{unknown, version}
	s.validateContainerd(&p)
	p = append(p, s.validateSource())
	s.validateSources(&p)
	p = append(p, unwanted)
	s.validateAssets(&p, "versions", s.Versions, validatePin)
	s.validateAssets(&p, "checksums", s.Checksums, validateSum)
	for _, name := range s.Packages {
		p = append(p, checkName("packages", name), checkPackage("packages", name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sysctls)) {
		p = append(p, validateSysctl(name, s.Sysctls[name]))
	}
	s.validateOptions(&p)
	if unknown == nil {
		p = append(p, s.validateDistro())
	}
	return errors.Join(p...)
}

func (s Spec) validateKubernetes() error {
	v := s.KubernetesVersion
	switch {
	case v == "":
		return surface.Errorf("{kubernetes_version} is missing; set a complete version, such as %s",
			lifecycle.Kubernetes())
	case strings.HasPrefix(v, "v"):
		return surface.Errorf(`{kubernetes_version} %q must be written without the "v"`, v)
	case !versionForm.MatchString(v):
		return surface.Errorf(`{kubernetes_version} %q must be complete, such as %q; nothing is resolved to "latest"`,
			v, lifecycle.Kubernetes())
	}
	if minor := s.minor(); minor < oldestMinor || minor > newestMinor {
		return surface.Errorf("{kubernetes_version} %q is not supported; supported are 1.%d to 1.%d", v, oldestMinor,
			newestMinor)
	}
	return nil
}

func (s Spec) validateSource() error {
	if s.AllowHTTP && !strings.HasPrefix(strings.ToLower(s.SourceURL), "http://") {
		return surface.Errorf("{allow_http} has no effect unless {source_url} begins with http://")
	}
	if s.SourceURL == "" {
		return nil
	}
	u, err := url.Parse(s.SourceURL)
	if err != nil { // which would contain a password
		return surface.Errorf("{source_url} cannot be read as an address; " +
			"allowed is http:// or https://, a host, and a path")
	}
	shown := u.Redacted()
	switch {
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/") && u.Opaque == "" && u.User == nil:
		// a folder
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return surface.Errorf("{source_url} %q must begin with http:// or https:// and a host, "+
			"or with file:// and an absolute path", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return surface.Errorf("{source_url} %q must not have a query or a fragment: eksnode appends the assets' paths",
			shown)
	}
	return nil
}

// validateAssets checks settings of assets. Those of an asset that this kubelet does not
// get would have no effect.
func (s Spec) validateAssets(
	p *problems, field surface.Name, values map[string]string, wrong func(a asset.Asset, value string) error,
) {
	for _, id := range slices.Sorted(maps.Keys(values)) {
		a, err := knownAsset(field, id)
		if err == nil {
			err = wrong(a, values[id])
		}
		*p = append(*p, err)
		if minor := s.minor(); minor > 0 && minor < a.Since {
			p.add("%s has no effect: kubelets before 1.%d do not use this asset, and {kubernetes_version} is %q",
				field.Key(id), a.Since, s.KubernetesVersion)
		}
	}
}

func validatePin(a asset.Asset, version string) error {
	switch {
	case a.Version == "":
		return surface.Errorf("%s: {kubernetes_version} sets this version", surface.Name("versions").Key(a.ID))
	case !versionForm.MatchString(version):
		return surface.Errorf(`%s must be complete and without "v", such as %q`,
			surface.Name("versions").Entry(a.ID, version), a.Version)
	}
	return nil
}

func validateSum(a asset.Asset, sum string) error {
	if !sumForm.MatchString(sum) {
		return surface.Errorf("%s must be a SHA-256: 64 hexadecimal digits", surface.Name("checksums").Entry(a.ID, sum))
	}
	return nil
}

func knownAsset(field surface.Name, id string) (asset.Asset, error) {
	table := asset.Table()
	if i := slices.IndexFunc(table, func(a asset.Asset) bool { return a.ID == id }); i >= 0 {
		return table[i], nil
	}
	return asset.Asset{}, surface.Errorf("%s: there is no such asset; known are %s", field.Key(id),
		strings.Join(asset.IDs(), ", "))
}

// checkName refuses what is no package's name.
func checkName(field surface.Name, name string) error {
	if packageForm.MatchString(name) {
		return nil
	}
	return surface.Errorf("%s: %q "+noPackage, field, name)
}

const (
	noPackage = "is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit"
	noLabel   = "is not a name; allowed are small letters, digits and -, beginning and ending with a letter or digit"
)

func checkPackage(field surface.Name, name string) error {
	if why := misfits(name); why != "" {
		return surface.Errorf("%s: %q contradicts what a node needs: %s", field, name, why)
	}
	return nil
}

func validateSysctl(name, value string) error {
	if !sysctlForm.MatchString(name) {
		return surface.Errorf("%s is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward",
			surface.Name("sysctls").Key(name))
	}
	if strings.TrimSpace(value) == "" || strings.ContainsAny(value, "\n\r\x00") {
		return surface.Errorf("%s must be one non-empty line", surface.Name("sysctls").Entry(name, value))
	}
	if err := checkParameter(name, strings.TrimSpace(value)); err != nil {
		return surface.Errorf("%s %w", surface.Name("sysctls").Entry(name, value), err)
	}
	return nil
}

var (
	packageVersionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~:^_-]*$`)
	labelForm          = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// The argument passes through a shell, GRUB and systemd; none of them gives
	// these characters a meaning.
	argumentForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]*(=[0-9A-Za-z.,:/@%+_-]*)?$`)
)

// firstWithSwap is the first minor version whose kubelet has the feature gate NodeSwap on
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/).
const firstWithSwap = 30

// validateOptions checks the optional fields.
func (s Spec) validateOptions(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(s.PackageVersions)) {
		*p = append(*p, checkPackage("package_versions", name))
		switch version := s.PackageVersions[name]; {
		case !packageForm.MatchString(name):
			p.add("%s "+noPackage, surface.Name("package_versions").Key(name))
		case !packageVersionForm.MatchString(version):
			p.add(`%s is not a version; write it as the package manager does, such as "1.7.24-1"`,
				surface.Name("package_versions").Entry(name, version))
		}
	}
	if s.Kernel != "" {
		*p = append(*p, checkName("kernel", s.Kernel))
	}
	for _, name := range slices.Sorted(maps.Keys(s.CACertificates)) {
		key := surface.Name("ca_certificates").Key(name)
		if !labelForm.MatchString(name) {
			p.add("%s "+noLabel, key)
		}
		if _, err := authority(s.CACertificates[name]); err != nil {
			p.add("%s: %w", key, err)
		}
	}
	s.validateArguments(p)
	s.validateRepositories(p)
	s.validateNodeDefaults(p)
	p.proxy("proxy", s.Proxy, true, "no_proxy", s.NoProxy)
	s.validateServers(p)
	p.choices("agents", s.Agents, Agents())
	s.validateDrivers(p)
	for _, c := range []struct {
		field surface.Name
		value string
		known []string
	}{
		{"bootstrap", s.Bootstrap, Bootstraps()}, {"nvidia_container_toolkit", s.NVIDIAContainerToolkit, DeviceLists()},
		{"swap", s.Swap, Swaps()}, {"fips", s.FIPS, FIPSModes()},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			p.add("%s %q is not known; known are %s", c.field, c.value, strings.Join(c.known, ", "))
		}
	}
	if minor := s.minor(); s.Swap != "" && minor > 0 && minor < firstWithSwap {
		p.add("{swap} needs kubelet 1.%d or newer, with which pods can use swap; {kubernetes_version} is %q",
			firstWithSwap, s.KubernetesVersion)
	}
	s.validateHardening(p)
}

// choices refuses names that are not known, and those that are listed twice.
func (p *problems) choices(field surface.Name, names, known []string) {
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			p.add("%s: %q is not known; known are %s", field, name, strings.Join(known, ", "))
		case slices.Contains(names[:i], name):
			p.add("%s: %q is listed twice", field, name)
		}
	}
}

// validateArguments also refuses arguments that contradict other fields.
func (s Spec) validateArguments(p *problems) {
	for i, a := range s.KernelArguments {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case !argumentForm.MatchString(a):
			p.add("{kernel_arguments}: %q is not NAME or NAME=VALUE of letters, digits and . , : / @ %% + _ -", a)
		case slices.Contains(s.KernelArguments[:i], a):
			p.add("{kernel_arguments}: %q is listed twice", a)
		default:
			if err := s.checkArgument(name, value); err != nil {
				p.add("{kernel_arguments}: %q %w", a, err)
			}
		}
	}
}

func authority(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, surface.Errorf("the text contains no PEM; %s", surface.Words{
			HCL:   `give the certificate's content, for example with file("ca.pem")`,
			Flags: "name the file of a certificate",
		})
	case block.Type != "CERTIFICATE":
		return nil, fmt.Errorf("the PEM block is a %s, not a CERTIFICATE", block.Type)
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New("the text has more than one certificate; give each its own name")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the certificate: %w", err)
	case !c.IsCA:
		return nil, fmt.Errorf("%q is not an authority's certificate, "+
			"so certificates that it signed would not be trusted", c.Subject.CommonName)
	}
	return c, nil
}
