package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// SBOMPath is the path of an image's bill of materials.
const SBOMPath = "/etc/eks/eksnode/sbom.cdx.json"

// bom is the part of a CycloneDX 1.5 document that an image needs
// (https://cyclonedx.org/docs/1.5/json/).
type bom struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Serial     string      `json:"serialNumber"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Tools     tools     `json:"tools"`
	Component component `json:"component"`
}

type tools struct {
	Components []component `json:"components"`
}

type component struct {
	Type       string      `json:"type"`
	Ref        string      `json:"bom-ref,omitempty"`
	Name       string      `json:"name"`
	Version    string      `json:"version,omitempty"`
	Hashes     []hash      `json:"hashes,omitempty"`
	PURL       string      `json:"purl,omitempty"`
	References []reference `json:"externalReferences,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type reference struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// purlTypes are the package URLs' types of the package managers
// (https://github.com/package-url/purl-spec).
var purlTypes = map[string]string{"apt": "deb", "dnf": "rpm", "yum": "rpm", "zypper": "rpm", "pacman": "alpm"}

// SBOM is the image's bill of materials as a CycloneDX 1.5 document: everything
// that provisioning added to the base image. The same image gives the same text: it
// contains no time, and the serial number comes from the content.
func (m *Manifest) SBOM() ([]byte, error) {
	b := bom{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata: metadata{
			Tools:     tools{[]component{{Type: "application", Name: "eksnode", Version: m.Tool}}},
			Component: component{Type: "operating-system", Ref: "image", Name: m.Distro, Version: m.DistroVersion},
		},
		Components: []component{},
	}
	for _, p := range sortedBy(m.Packages, func(p Package) string { return p.Name }) {
		b.add(component{Type: "library", Name: p.Name, Version: p.Version, PURL: m.packageURL(p)})
	}
	for _, a := range sortedBy(m.Assets, func(a Asset) string { return a.ID }) {
		b.add(component{
			Type: "application", Name: a.ID, Version: a.Version, Hashes: []hash{{"SHA-256", a.SHA256}},
			PURL:       fmt.Sprintf("pkg:generic/%s@%s?checksum=%s&download_url=%s", escape(a.ID), escape(a.Version), escape("sha256:"+a.SHA256), escape(a.URL)),
			References: []reference{{"distribution", a.URL}},
		})
	}
	for _, i := range sortedBy(m.Images, func(i Image) string { return i.Name }) {
		repository, tag := splitImage(i.Name)
		_, last, _ := cutLast(repository, "/")
		b.add(component{
			Type: "container", Name: repository, Version: tag, Hashes: []hash{{"SHA-256", strings.TrimPrefix(i.Digest, "sha256:")}},
			PURL: fmt.Sprintf("pkg:oci/%s@%s?repository_url=%s&tag=%s", escape(last), escape(i.Digest), escape(repository), escape(tag)),
		})
	}
	return b.encode()
}

// add adds a component with its own reference.
func (b *bom) add(c component) {
	c.Ref = fmt.Sprintf("%s/%s", c.Type, c.Name)
	b.Components = append(b.Components, c)
}

func (b *bom) encode() ([]byte, error) {
	content, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	b.Serial = serial(content)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(b); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// serial is a UUID of version 8 (RFC 9562) made from content.
func serial(content []byte) string {
	id := sha256.Sum256(content)
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}

// packageURL is empty for packages of a kind that has no such address.
func (m *Manifest) packageURL(p Package) string {
	kind := purlTypes[m.PackageManager]
	if kind == "" {
		return ""
	}
	address := fmt.Sprintf("pkg:%s/%s/%s@%s", kind, escape(m.Distro), escape(p.Name), escape(p.Version))
	if m.DistroVersion != "" {
		address += "?distro=" + escape(m.Distro+"-"+m.DistroVersion)
	}
	return address
}

// escape is percent encoding. Names and versions contain no spaces.
func escape(s string) string { return url.QueryEscape(s) }

// splitImage splits a name into repository and tag.
func splitImage(name string) (repository, tag string) {
	before, after, found := cutLast(name, ":")
	if !found || strings.Contains(after, "/") { // a port
		return name, ""
	}
	return before, after
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}
