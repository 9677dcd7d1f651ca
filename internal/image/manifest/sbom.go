package manifest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// SBOMPath is the path of an image's bill of materials.
const SBOMPath = "/etc/eks/eksnode/sbom.cdx.json"

// TailoringPath is the path of the tailoring by which an image was hardened.
const TailoringPath = "/usr/share/doc/eksnode/tailoring.xml"

// purlTypes are the package URLs' types of the package managers
// (https://github.com/package-url/purl-spec).
var purlTypes = map[string]string{"apt": "deb", "dnf": "rpm", "yum": "rpm", "zypper": "rpm", "pacman": "alpm"}

// Components are everything that provisioning added to the base image.
func (m *Manifest) Components() []cyclonedx.Component {
	components := []cyclonedx.Component{}
	add := func(c cyclonedx.Component) {
		c.BOMRef = fmt.Sprintf("%s/%s", c.Type, c.Name)
		if slices.ContainsFunc(components, func(o cyclonedx.Component) bool { return o.BOMRef == c.BOMRef }) {
			c.BOMRef += fmt.Sprintf("@%s#%d", c.Version, len(components)) // of other versions or architectures
		}
		components = append(components, c)
	}
	for _, p := range sortedBy(m.Packages, func(p Package) string { return p.Name }) {
		name, _ := p.nameOf()
		add(cyclonedx.Component{
			Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: p.Version, PackageURL: m.packageURL(p),
			Licenses: p.licenses(),
		})
	}
	for _, version := range m.Kernels {
		add(cyclonedx.Component{
			Type: cyclonedx.ComponentTypeOS, Name: "linux", Version: version, Description: "kernel modules",
		})
	}
	for _, a := range sortedBy(m.Assets, func(a Asset) string { return a.ID }) {
		add(cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, Name: a.ID, Version: a.Version, Hashes: sha256Of(a.SHA256),
			PackageURL: fmt.Sprintf("pkg:generic/%s@%s?checksum=%s&download_url=%s",
				escape(a.ID), escape(a.Version), escape("sha256:"+a.SHA256), escape(a.URL)),
			ExternalReferences: &[]cyclonedx.ExternalReference{{Type: cyclonedx.ERTypeDistribution, URL: a.URL}},
		})
	}
	listed := map[string]bool{}
	for _, i := range sortedBy(m.Images, func(i Image) string { return i.Name }) {
		repository, tag := splitImage(i.Name)
		same := repository + "@" + i.Digest
		if repository == "sha256" || tag == "" && listed[same] {
			continue // containerd also lists an image by its ID and its digest
		}
		listed[same] = true
		qualifiers := url.Values{"repository_url": {repository}}
		if tag != "" {
			qualifiers.Set("tag", tag)
		}
		add(cyclonedx.Component{
			Type: cyclonedx.ComponentTypeContainer, Name: repository, Version: tag,
			Hashes: sha256Of(strings.TrimPrefix(i.Digest, "sha256:")),
			PackageURL: fmt.Sprintf("pkg:oci/%s@%s?%s", escape(path.Base(repository)), escape(i.Digest),
				qualifiers.Encode()),
		})
	}
	return components
}

// SBOM is the image's bill of materials as a CycloneDX 1.5 document with its components.
// The same image gives the same text: it contains no time, and the serial number comes
// from the content.
func (m *Manifest) SBOM() ([]byte, error) {
	components := m.Components()
	b := cyclonedx.NewBOM()
	b.Metadata = &cyclonedx.Metadata{
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{
			{Type: cyclonedx.ComponentTypeApplication, Name: "eksnode", Version: m.Tool},
		}},
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeOS, BOMRef: "image", Name: m.Distro, Version: m.DistroVersion,
		},
	}
	b.Components = &components
	content, err := encode(b)
	if err != nil {
		return nil, err
	}
	b.SerialNumber = serial(content)
	return encode(b)
}

func sha256Of(sum string) *[]cyclonedx.Hash {
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}}
}

func encode(b *cyclonedx.BOM) ([]byte, error) {
	var out bytes.Buffer
	e := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false)
	if err := e.EncodeVersion(b, cyclonedx.SpecVersion1_5); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// serial is a UUID of version 8 (RFC 9562) made from content.
func serial(content []byte) string {
	id := sha256.Sum256(content)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return "urn:uuid:" + show.UUID(id[:])
}

// nameOf takes dpkg's name of a package for one of several architectures apart. Scanners
// look for the name alone.
func (p Package) nameOf() (name, arch string) {
	name, arch, _ = strings.Cut(p.Name, ":")
	return name, arch
}

// licenses are one expression. With a license that SPDX does not know, they are a list.
func (p Package) licenses() *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	if len(p.UnknownLicenses) == 0 && len(p.Licenses) > 0 {
		list := slices.Clone(p.Licenses)
		for n, one := range list {
			if len(list) > 1 && strings.Contains(one, " ") {
				list[n] = "(" + one + ")"
			}
		}
		all = append(all, cyclonedx.LicenseChoice{Expression: strings.Join(list, " AND ")})
		return &all
	}
	for _, name := range append(slices.Clone(p.Licenses), p.UnknownLicenses...) {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{Name: name}})
	}
	if len(all) == 0 {
		return nil
	}
	return &all
}

// packageURL is empty for packages of a kind that has no such address.
func (m *Manifest) packageURL(p Package) string {
	kind := purlTypes[m.PackageManager]
	if kind == "" {
		return ""
	}
	name, arch := p.nameOf()
	qualifiers := url.Values{}
	if arch != "" {
		qualifiers.Set("arch", arch)
	}
	if m.DistroVersion != "" {
		qualifiers.Set("distro", m.Distro+"-"+m.DistroVersion)
	}
	if p.Source != "" {
		qualifiers.Set("upstream", p.Source)
	}
	if epoch, rest, found := strings.Cut(p.Version, ":"); found && kind == "rpm" {
		qualifiers.Set("epoch", epoch)
		p.Version = rest
	}
	address := fmt.Sprintf("pkg:%s/%s/%s@%s", kind, escape(m.Distro), escape(name), escape(p.Version))
	if len(qualifiers) > 0 {
		address += "?" + qualifiers.Encode()
	}
	return address
}

// escape is percent encoding. Names and versions contain no spaces.
func escape(s string) string { return url.QueryEscape(s) }

func splitImage(name string) (repository, tag string) {
	name, _, _ = strings.Cut(name, "@")
	i := strings.LastIndex(name, ":")
	if i < 0 || strings.Contains(name[i:], "/") { // a port
		return name, ""
	}
	return name[:i], name[i+1:]
}
