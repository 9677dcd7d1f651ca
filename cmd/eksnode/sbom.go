//go:build !agent

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spf13/cobra"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/attest"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

func sbomCommand() *cobra.Command {
	var d auditedDisk
	var root, format string
	var report tablePage
	cmd := newCommand("sbom", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(d.check(cmd), report.begin(cmd)); err != nil {
			return err
		}
		m, err := d.contents(cmd, root)
		if err != nil {
			return err
		}
		if len(m.Packages) == 0 {
			const none = "warning: no packages are listed: the image has no database of dpkg, rpm or pacman"
			newPrinter(cmd.ErrOrStderr()).line(none)
		}
		title := strings.TrimSpace("contents of " + m.Distro + " " + m.DistroVersion)
		return errors.Join(writeBill(cmd.OutOrStdout(), m, format), report.write(title, billTable(m)))
	})
	bind(cmd, targets{"root": &root, "report": &report.name})
	formatFlag(cmd, &format, "cyclonedx", "spdx")
	d.placeFlags(cmd, awsapi.SnapshotReadPolicy)
	return cmd
}

// contents returns the manifest of everything in an image.
func (d *auditedDisk) contents(cmd *cobra.Command, root string) (*manifest.Manifest, error) {
	spec := scrub.Spec{Only: []string{"machine-id"}, Node: scrub.NodeNo} // the audit also finds the distribution
	if d.isGiven() {
		d.whole = true
		r, err := d.audit(cmd, spec)
		return attest.Describe(d.made, r.Machine), err
	}
	h, err := openHost(root)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	m, err := diskaudit.Whole(cmd.Context(), h)
	if err != nil {
		return nil, err
	}
	r, _ := eksnode.Audit(context.WithoutCancel(cmd.Context()), h, spec, eksnode.Options{}) // only its machine counts
	return attest.Describe(*m, r.Machine), nil
}

func billTable(m *manifest.Manifest) page.Table {
	t := page.Table{Title: "Components", Head: []string{"kind", "name", "version", "license"}}
	for _, c := range m.Components() {
		t.Rows = append(t.Rows, []string{strings.Replace(string(c.Type), "library", "package", 1), c.Name, c.Version,
			strings.Join(licenseNames(c), ", ")})
	}
	return t
}

// licenseNames are the expression, or the names of a list.
func licenseNames(c cyclonedx.Component) (names []string) {
	if c.Licenses == nil {
		return nil
	}
	for _, l := range *c.Licenses {
		if l.License != nil {
			l.Expression = l.License.Name
		}
		names = append(names, l.Expression)
	}
	return names
}

func writeBill(w io.Writer, m *manifest.Manifest, format string) error {
	text, err := m.SBOM()
	if format == "spdx" && err == nil {
		text, err = spdx(m, text)
	}
	if err == nil {
		_, err = w.Write(show.JSON(text))
	}
	return err
}

// spdx is a bill of materials as an SPDX 2.3 document. Its namespace comes from the
// content of the CycloneDX document.
func spdx(m *manifest.Manifest, bill []byte) ([]byte, error) {
	const none = "NOASSERTION"
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "image",
		DocumentNamespace: fmt.Sprintf("%s/spdx/%x", version.Repository, sha256.Sum256(bill)),
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "eksnode-" + version.String()}},
			Created:  time.Now().UTC().Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{{
			PackageName: cmp.Or(m.Distro, "image"), PackageSPDXIdentifier: "image", PackageVersion: m.DistroVersion,
			PackageDownloadLocation: none, PrimaryPackagePurpose: "OPERATING_SYSTEM",
		}},
		Relationships: []*v2_3.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "image"),
			Relationship: "DESCRIBES",
		}},
	}
	for n, c := range m.Components() {
		id := common.ElementID(fmt.Sprintf("c%d", n))
		p := &v2_3.Package{
			PackageName: c.Name, PackageSPDXIdentifier: id, PackageVersion: c.Version, PackageDownloadLocation: none,
			PackageLicenseConcluded: none, PackageLicenseDeclared: none, PackageCopyrightText: none,
		}
		if c.Licenses != nil {
			p.PackageLicenseDeclared = cmp.Or((*c.Licenses)[0].Expression, none)
			if p.PackageLicenseDeclared == none {
				p.PackageLicenseComments = strings.Join(licenseNames(c), "\n")
			}
		}
		if c.PackageURL != "" {
			p.PackageExternalReferences = []*v2_3.PackageExternalReference{{Category: "PACKAGE-MANAGER",
				RefType: "purl", Locator: c.PackageURL}}
		}
		if c.ExternalReferences != nil {
			p.PackageDownloadLocation = (*c.ExternalReferences)[0].URL
		}
		if c.Hashes != nil && len((*c.Hashes)[0].Value) == 2*sha256.Size {
			p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256,
				Value: strings.ToLower((*c.Hashes)[0].Value)}}
		}
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", "image"), RefB: common.MakeDocElementID("", string(id)),
			Relationship: "CONTAINS",
		})
	}
	var out bytes.Buffer
	if err := json.Write(doc, &out, json.Indent("  "), json.EscapeHTML(false)); err != nil {
		return nil, fmt.Errorf("writing the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}
