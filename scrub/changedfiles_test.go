//go:build linux

package scrub

import (
	"bytes"
	"crypto/md5"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// packaged is a root with a package of dpkg, whose files are as installed.
func packaged(t *testing.T) map[string]string {
	t.Helper()
	key := pemKey("PRIVATE KEY")
	return map[string]string{
		"etc/passwd": passwd, "usr/bin/tool": "tool", "usr/lib/tool/test.pem": key, "etc/tool.conf": "password = S3" + "curePw9x\n", "etc/hosts": "127.0.0.1 localhost\n", "usr/share/doc/tool/copyright": "free",
		"var/lib/dpkg/info/tool.list":    "/.\n/usr/bin/tool\n/usr/lib/tool/test.pem\n/usr/share/doc/tool/copyright\n/etc/tool.conf\n/etc/hosts\n",
		"var/lib/dpkg/info/tool.md5sums": md5Of("tool") + "  usr/bin/tool\n" + md5Of(key) + "  usr/lib/tool/test.pem\n" + md5Of("x") + "  etc/hosts\n" + md5Of("free") + "  usr/share/doc/tool/copyright\n",
		"var/lib/dpkg/status":            "Package: tool\nStatus: install ok installed\nConffiles:\n /etc/tool.conf " + md5Of("password = S3"+"curePw9x\n") + "\n",
	}
}

// elfHead is the head of a program.
func elfHead(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
	}))
	return b.String()
}

// What a package owns and has not changed is not searched: test keys and sample
// settings are public. A changed file is searched like any other.
func TestUnchangedFilesOfPackagesAreNotSearched(t *testing.T) {
	files := packaged(t)
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "secrets-left"))

	// A database with no checksums for a library leaves the library public.
	without := maps.Clone(files)
	without["usr/share/doc/tool/key"] = pemKey("PRIVATE KEY")
	without["usr/lib/libtool.so"] = elfHead(t) + pemKey("PRIVATE KEY")
	without["var/lib/dpkg/info/tool.md5sums"] = md5Of("tool") + "  usr/bin/tool\n" + md5Of(files["usr/lib/tool/test.pem"]) + "  usr/lib/tool/test.pem\n"
	h, _ = tree(t, without)
	assert.Empty(t, audit(t, h, "secrets-left"))

	files["usr/lib/tool/test.pem"] += "\n"
	files["etc/tool.conf"] += "# mine\n"
	files["usr/lib/tool/own.pem"] = pemKey("PRIVATE KEY")
	files["usr/share/doc/tool/key"] = pemKey("PRIVATE KEY") // no package owns the file
	h, _ = tree(t, files)
	assert.Equal(t, []string{
		"/etc/tool.conf: line 1 contains a password",
		"/usr/lib/tool/own.pem: line 1 contains a private key",
		"/usr/lib/tool/test.pem: line 1 contains a private key",
		"/usr/share/doc/tool/key: line 1 contains a private key",
	}, audit(t, h, "secrets-left"))
}

// Changed files are notes, which change no result. They are findings for the
// person who selects the rule. Files that a provision records are left to
// can-join.
func TestChangedFilesOfPackagesAreNotes(t *testing.T) {
	files := packaged(t)
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "changed-files"))

	files["usr/bin/tool"], files["etc/tool.conf"] = "other", "-> /etc/elsewhere"
	text, err := (&manifest.Manifest{Files: []manifest.File{{Path: "/usr/lib/tool/test.pem", Mode: 0o644}}}).Encode()
	require.NoError(t, err)
	files[manifest.Path[1:]], files["usr/lib/tool/test.pem"] = string(text), "written by a provision"
	h, root := tree(t, files)
	want := []plan.Finding{
		{Target: "/usr/bin/tool", Reason: `differs from the file that the package "tool" installed`},
		{Target: "/etc/tool.conf", Reason: `configuration of the package "tool", changed since installation; now a link or a special file`},
	}
	look := func(only ...string) (plan.Report, []plan.Check) {
		items, err := Spec{Only: only}.AuditItems(nil)
		require.NoError(t, err)
		var r plan.Report
		list, checks := plan.Look(t.Context(), h, items, nil)
		r.Audited(list, checks)
		return r, checks
	}
	got, _ := look("changed-files")
	require.Len(t, got.Plan, 1)
	assert.Equal(t, want, got.Plan[0].Findings)
	assert.Equal(t, 1, got.Result.ExitCode())

	got, checks := look("packages")
	assert.Equal(t, 0, got.Result.ExitCode())
	assert.Contains(t, checks, plan.Check{Item: "changed-files", Phase: "inspect", Outcome: plan.Passed, Notes: want})

	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	require.NoError(t, os.Remove(filepath.Join(root, "var/lib/dpkg/info/tool.md5sums")))
	assert.Empty(t, audit(t, h, "changed-files"), "nothing says what the package installed")
}
