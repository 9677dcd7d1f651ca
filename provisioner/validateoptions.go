package provisioner

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

var (
	packageVersionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~:^_-]*$`)
	authorityForm      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// The argument passes through a shell, GRUB and systemd; none of them gives
	// these characters a meaning.
	argumentForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]*(=[0-9A-Za-z.,:/@%+_-]*)?$`)
)

// firstWithSwap is the first minor version whose kubelet has the feature gate NodeSwap on
// (https://kubernetes.io/docs/reference/command-line-tools-reference/feature-gates/).
const firstWithSwap = 30

// validateOptions checks the optional fields.
func (s Spec) validateOptions() []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, surface.Errorf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(s.PackageVersions)) {
		errs = append(errs, checkPackage("package_versions", name))
		switch version := s.PackageVersions[name]; {
		case !packageForm.MatchString(name):
			add("%s "+noPackage, surface.Name("package_versions").Key(name))
		case !packageVersionForm.MatchString(version):
			add(`%s is not a version; write it as the package manager does, such as "1.7.24-1"`,
				surface.Name("package_versions").Entry(name, version))
		}
	}
	if s.Kernel != "" {
		errs = append(errs, checkName("kernel", s.Kernel))
	}
	for _, name := range slices.Sorted(maps.Keys(s.CACertificates)) {
		key := surface.Name("ca_certificates").Key(name)
		if !authorityForm.MatchString(name) {
			add("%s is not a name; allowed are small letters, digits and -, beginning and ending with a letter or digit", key)
		}
		if _, err := authority(s.CACertificates[name]); err != nil {
			add("%s: %w", key, err)
		}
	}
	errs = append(append(errs, s.validateArguments()...),
		slices.Concat(s.validateRepositories(), s.validateNodeDefaults(), s.validateProxy(), s.validateServers(),
			validateNames("agents", s.Agents, Agents()), s.validateDrivers())...)
	for _, c := range []struct {
		field surface.Name
		value string
		known []string
	}{
		{"bootstrap", s.Bootstrap, Bootstraps()}, {"nvidia_container_toolkit", s.NVIDIAContainerToolkit, DeviceLists()},
		{"swap", s.Swap, Swaps()}, {"fips", s.FIPS, FIPSModes()},
	} {
		if c.value != "" && !slices.Contains(c.known, c.value) {
			add("%s %q is not known; known are %s", c.field, c.value, strings.Join(c.known, ", "))
		}
	}
	if minor := s.minor(); s.Swap != "" && minor > 0 && minor < firstWithSwap {
		add("{swap} needs kubelet 1.%d or newer, with which pods can use swap; {kubernetes_version} is %q", firstWithSwap, s.KubernetesVersion)
	}
	return append(errs, s.validateHardening()...)
}

// validateNames refuses names that are not known, and those that are listed twice.
func validateNames(field surface.Name, names, known []string) []error {
	var errs []error
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			errs = append(errs, surface.Errorf("%s: %q is not known; known are %s", field, name, strings.Join(known, ", ")))
		case slices.Contains(names[:i], name):
			errs = append(errs, surface.Errorf("%s: %q is listed twice", field, name))
		}
	}
	return errs
}

// validateArguments also refuses arguments that contradict other fields.
func (s Spec) validateArguments() []error {
	var errs []error
	for i, a := range s.KernelArguments {
		name, value, _ := strings.Cut(a, "=")
		switch {
		case !argumentForm.MatchString(a):
			errs = append(errs, surface.Errorf("{kernel_arguments}: %q is not NAME or NAME=VALUE of letters, digits and . , : / @ %% + _ -", a))
		case slices.Contains(s.KernelArguments[:i], a):
			errs = append(errs, surface.Errorf("{kernel_arguments}: %q is listed twice", a))
		default:
			if err := s.checkArgument(name, value); err != nil {
				errs = append(errs, surface.Errorf("{kernel_arguments}: %q %w", a, err))
			}
		}
	}
	return errs
}

func authority(text string) (*x509.Certificate, error) {
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, surface.Errorf("the text contains no PEM; %s", surface.Words{HCL: `give the certificate's content, for example with file("ca.pem")`, Flags: "name the file of a certificate"})
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
		return nil, fmt.Errorf("%q is not an authority's certificate, so certificates that it signed would not be trusted", c.Subject.CommonName)
	}
	return c, nil
}
