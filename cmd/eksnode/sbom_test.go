//go:build linux && !agent

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// The bill of an image lists packages that eksnode did not install, also without its
// manifest. The libraries of both formats read what was written.
func TestABillListsTheWholeImage(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"13\"\n",
		"var/lib/dpkg/status": "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nMulti-Arch: same\nSource: glibc\nVersion: 2.41-12\n\n" +
			"Package: linux-image-6.12.1-amd64\nStatus: install ok installed\nArchitecture: amd64\nVersion: 6.12.1-1\n\n" +
			"Package: removed\nStatus: deinstall ok config-files\nVersion: 1\n",
		"usr/share/doc/libc6/copyright": "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n" +
			"Files: *\nLicense: LGPL-2.1+\n\nFiles: a\nLicense: Expat\n The text.\n",
		"usr/share/doc/linux-image-6.12.1-amd64/copyright": "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n" +
			"License: GPL-2\n\nLicense: Unicode-data\n",
		"usr/lib/modules/6.12.1-amd64/modules.dep": "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	bill := func(format string) string {
		out := succeeds(t, "sbom", "--root", root, "--output", format)
		return out
	}
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

	file := filepath.Join(t.TempDir(), "bill.html")
	succeeds(t, "sbom", "--root", root, "--report", file)
	text := testkit.Content(t, file)
	assert.Contains(t, text, "<td>package</td><td>libc6</td><td>2.41-12</td><td>LGPL-2.1-or-later AND MIT</td>")
	_, errOut := exits(t, 2, "sbom", "--root", root, "--report", "bill.json")
	assert.Contains(t, errOut, "--report bill.json: name a file with .html or .md; --output json prints JSON")

	require.NoError(t, os.RemoveAll(filepath.Join(root, "var")))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=nixos\n"), 0o644))
	var out string
	out, errOut = exits(t, 0, "sbom", "--root", root)
	assert.Contains(t, out, `"name": "nixos"`)
	assert.Contains(t, errOut, "warning: no packages are listed")

	_, errOut = exits(t, 2, "sbom", "--root", root, "--disk", "x.raw")
	assert.Contains(t, errOut, "--disk and --root exclude each other")
}
