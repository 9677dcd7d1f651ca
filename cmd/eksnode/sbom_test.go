//go:build linux && !agent

package main

import (
	"path/filepath"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The bill of an image lists packages that eksnode did not install, also without its
// manifest. The libraries of both formats read what was written.
func TestABillListsTheWholeImage(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/sbom.txtar")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, txtar.Write(archive, folder))
	root := filepath.Join(folder, "image")
	bill := func(format string) string { return succeeds(t, "sbom", "--root", root, "--output", format) }
	var b cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(strings.NewReader(bill("cyclonedx")), cyclonedx.BOMFileFormatJSON).Decode(&b))
	assert.Equal(t, "debian", b.Metadata.Component.Name)
	assert.Equal(t, "libc6", (*b.Components)[0].Name, "scanners look for this name")
	var found []string
	for _, c := range *b.Components {
		found = append(found, c.PackageURL)
	}
	want := []string{
		"pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13&upstream=glibc",
		"pkg:deb/debian/linux-image-6.12.1-amd64@6.12.1-1?distro=debian-13", "",
	}
	assert.Equal(t, want, found)
	assert.Equal(t, "6.12.1-amd64", (*b.Components)[2].Version)
	assert.Equal(t, cyclonedx.Licenses{{Expression: "LGPL-2.1-or-later AND MIT"}}, *(*b.Components)[0].Licenses)
	assert.Equal(t, "Unicode-data", (*(*b.Components)[1].Licenses)[1].License.Name)

	doc, err := json.Read(strings.NewReader(bill("spdx")))
	require.NoError(t, err)
	require.Len(t, doc.Packages, 4)
	assert.Equal(t, "debian", doc.Packages[0].PackageName)
	assert.Equal(t, "OPERATING_SYSTEM", doc.Packages[0].PrimaryPackagePurpose, "the word of the schema")
	for n, p := range doc.Packages[1:3] {
		assert.Equal(t, want[n], p.PackageExternalReferences[0].Locator)
	}
	assert.Equal(t, "LGPL-2.1-or-later AND MIT", doc.Packages[1].PackageLicenseDeclared)
	assert.Equal(t, "NOASSERTION", doc.Packages[2].PackageLicenseDeclared)
	assert.Contains(t, doc.Packages[2].PackageLicenseComments, "Unicode-data")
	assert.Len(t, doc.Relationships, 4)
}
