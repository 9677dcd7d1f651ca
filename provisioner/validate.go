package provisioner

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// The minors of Kubernetes 1 whose kubelets a node can have. Before 1.24 the
// kubelet needs dockershim; the last is the newest whose flags and
// configuration this version of eksnode knows.
const (
	oldestMinor = 24
	newestMinor = 37
)

var (
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	sumForm     = regexp.MustCompile(`^[0-9A-Fa-f]{64}$`)
	packageForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z+._-]*$`)
	sysctlForm  = regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_-]*(\.[0-9A-Za-z_-][0-9A-Za-z_/-]*)+$`)
)

// Validate checks a spec without looking at any machine. It reports all
// problems at once, each naming its field and what is allowed there.
func (s Spec) Validate() error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(s.validateDistro())
	add(s.validateKubernetes())
	add(s.validateSource())
	add(s.Sources.validate(s.Versions))
	_, err := s.wanted()
	add(err)
	for _, id := range slices.Sorted(maps.Keys(s.Versions)) {
		add(validatePin(id, s.Versions[id]))
		add(s.validateNeed("versions", id))
	}
	for _, id := range slices.Sorted(maps.Keys(s.Checksums)) {
		add(validateSum(id, s.Checksums[id]))
		add(s.validateNeed("checksums", id))
	}
	for _, name := range s.Packages {
		if !packageForm.MatchString(name) {
			add(fmt.Errorf("packages: %q is not a package's name; allowed are letters, digits and + . _ -, beginning with a letter or digit", name))
		}
		add(checkPackage("packages", name))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sysctls)) {
		add(validateSysctl(name, s.Sysctls[name]))
	}
	return errors.Join(append(errs, s.validateOptions()...)...)
}

func (s Spec) validateDistro() error {
	if s.Distro == "" {
		return nil
	}
	_, err := distros.ByID(s.Distro)
	return err
}

func (s Spec) validateKubernetes() error {
	v := s.KubernetesVersion
	switch {
	case v == "":
		return errors.New(`kubernetes_version is required, such as "1.34.4"`)
	case strings.HasPrefix(v, "v"):
		return fmt.Errorf(`kubernetes_version %q must be written without the "v"`, v)
	case !versionForm.MatchString(v):
		return fmt.Errorf(`kubernetes_version %q must be complete, such as "1.34.4"; nothing is resolved to "latest"`, v)
	}
	if minor, err := kubernetesMinor(v); err != nil || minor < oldestMinor || minor > newestMinor {
		return fmt.Errorf("kubernetes_version %q is not supported; supported are 1.%d to 1.%d", v, oldestMinor, newestMinor)
	}
	return nil
}

// kubernetesMinor is the 34 of 1.34.4.
func kubernetesMinor(version string) (int, error) {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if major != "1" {
		return 0, fmt.Errorf("%q is not a version of Kubernetes 1", version)
	}
	return strconv.Atoi(minor)
}

func (s Spec) validateSource() error {
	if s.SourceURL == "" {
		return nil
	}
	u, err := url.Parse(s.SourceURL)
	if err != nil {
		return errors.New("source_url cannot be read as an address; allowed is http:// or https://, a host, and a path") // the error would quote a password
	}
	shown := u.Redacted()
	switch {
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/") && u.Opaque == "" && u.User == nil:
		// a folder
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("source_url %q must begin with http:// or https:// and a host, or with file:// and an absolute path", shown)
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("source_url %q must not have a query or a fragment: assets' paths are put behind it", shown)
	}
	return nil
}

func validatePin(id, version string) error {
	asset, err := knownAsset("versions", id)
	switch {
	case err != nil:
		return err
	case asset.Version == "":
		return fmt.Errorf("versions[%q]: its version is kubernetes_version and cannot be set here", id)
	case !versionForm.MatchString(version):
		return fmt.Errorf(`versions[%q] = %q must be complete and without "v", such as %q`, id, version, asset.Version)
	}
	return nil
}

func validateSum(id, sum string) error {
	if _, err := knownAsset("checksums", id); err != nil {
		return err
	}
	if !sumForm.MatchString(sum) {
		return fmt.Errorf("checksums[%q] = %q must be a SHA-256: 64 hexadecimal digits", id, sum)
	}
	return nil
}

// validateNeed refuses what is said about an asset that this kubelet does not
// get: it would have no effect.
func (s Spec) validateNeed(field, id string) error {
	asset, err := knownAsset(field, id)
	minor, versionErr := kubernetesMinor(s.KubernetesVersion)
	if err != nil || versionErr != nil || minor >= asset.Since {
		return nil // told already, or needed
	}
	return fmt.Errorf("%s[%q] has no effect: kubelets before 1.%d do without it, and kubernetes_version is %q", field, id, asset.Since, s.KubernetesVersion)
}

func knownAsset(field, id string) (asset.Asset, error) {
	for _, a := range asset.Table() {
		if a.ID == id {
			return a, nil
		}
	}
	return asset.Asset{}, fmt.Errorf("%s[%q]: there is no such asset; known are %s", field, id, strings.Join(asset.IDs(), ", "))
}

func validateSysctl(name, value string) error {
	if !sysctlForm.MatchString(name) {
		return fmt.Errorf("sysctls[%q] is not a sysctl's name; write it with dots, such as net.ipv4.ip_forward", name)
	}
	if strings.TrimSpace(value) == "" || strings.ContainsAny(value, "\n\r\x00") {
		return fmt.Errorf("sysctls[%q] = %q must be one line that is not empty", name, value)
	}
	if err := checkParameter(name, strings.TrimSpace(value)); err != nil {
		return fmt.Errorf("sysctls[%q] = %q %w", name, value, err)
	}
	return nil
}
