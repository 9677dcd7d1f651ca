//go:build linux

package scrub

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestGlob(t *testing.T) {
	h, _ := surrounded(t, map[string]string{
		`home/we\ird [x]/.ssh/authorized_keys`: "x", `home/we\ird [x]/.ssh/authorized_keys2`: "x",
		"a/b/c": "x", "a/new\nline/c": "x", "a/\xff/c": "x", "a/file": "x",
		"around": "-> around", "up": "-> ..", "linked": "-> /a/b",
	})
	home := "/" + path.Join("home", quoteGlob(`we\ird [x]`), ".ssh")
	for pattern, want := range map[string][]string{
		home + "/authorized_keys*": {`/home/we\ird [x]/.ssh/authorized_keys`, `/home/we\ird [x]/.ssh/authorized_keys2`},
		home + "/authorized_keys":  {`/home/we\ird [x]/.ssh/authorized_keys`},
		"/a/*/c":                   {"/a/b/c", "/a/new\nline/c", "/a/\xff/c"},
		"/a/b/missing":             nil,
		"/a/file/*":                nil,
		"/a/file/x":                nil,
		"/around":                  {"/around"},
		"/around/*":                nil,
		"/around/x":                nil,
		"/linked/*":                {"/linked/c"},
		"/up/a/file":               {"/up/a/file"}, // ".." at the root stays there
		"/*/b":                     {"/a/b"},
	} {
		got, err := glob(h, pattern)
		require.NoError(t, err, pattern)
		assert.Equal(t, want, got, pattern)
	}
	_, err := glob(h, "/a/[")
	assert.EqualError(t, err, "looking for /a/[: syntax error in pattern")
}

// If a file that rules read is a FIFO, a device, a folder or huge, scrub and audit
// complete and name the file.
func TestIrregularFilesAreNamed(t *testing.T) {
	for kind, lay := range map[string]func(name string) error{
		"fifo":   func(name string) error { return unix.Mkfifo(name, 0o644) },
		"device": func(name string) error { return unix.Mknod(name, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
		"folder": func(name string) error { return os.Mkdir(name, 0o755) },
		"huge": func(name string) error {
			return os.WriteFile(name, nil, 0o644)
		},
	} {
		for _, name := range []string{
			"/etc/machine-id", "/etc/passwd", "/etc/hosts", "/etc/fstab", manifest.Path, templates.Kubeconfig, templates.KubeletConfig,
			"/etc/containerd/config.toml", containerdMeta, "/usr/lib/tmpfiles.d/x.conf", sshdCloudInit, "/etc/sysctl.d/x.conf",
		} {
			if kind == "huge" && name == "/etc/machine-id" || kind == "folder" && name == "/etc/sysctl.d/x.conf" {
				continue // a huge machine-id is emptied; a folder there is no configuration
			}
			t.Run(kind+name, func(t *testing.T) {
				files := joinedNode()
				files["etc/hosts"], files["var/log/wtmp"] = "127.0.0.1 localhost\n", "x"
				delete(files, strings.TrimPrefix(name, "/"))
				_, root := surrounded(t, files)
				at := filepath.Join(root, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
				require.NoError(t, lay(at))
				if kind == "huge" {
					require.NoError(t, os.Truncate(at, 3<<30))
				}
				if kind == "fifo" { // a writer that never writes
					holder, err := os.OpenFile(at, os.O_RDWR, 0)
					require.NoError(t, err)
					defer holder.Close()
				}
				done, audit := result(t, root, Spec{})
				said := audit.Error + strings.Join(findings(audit), "\n")
				if name == "/etc/sysctl.d/x.conf" { // only an audit reads it
					said += "; " + done.Error
				} else {
					assert.NotEqual(t, plan.OK, done.Result)
					assert.Contains(t, done.Error, name)
				}
				assert.Contains(t, said, name)
			})
		}
	}
}

// A link to /dev/null masks a configuration file. This is common and no error.
func TestMaskedFilesAreNoError(t *testing.T) {
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd, "dev/": "", "etc/eks/": "", "usr/lib/tmpfiles.d/x.conf": "-> /dev/null", "etc/sysctl.d/x.conf": "-> /dev/null", "var/log/wtmp": ""})
	require.NoError(t, unix.Mknod(filepath.Join(root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	items, err := Spec{Only: []string{"login-records", "kernel-settings"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Empty(t, plan.Make(t.Context(), h, items))
}

// FuzzHosts removes lines from any hosts(5). The result has only original lines.
func FuzzHosts(f *testing.F) {
	f.Add("127.0.0.1 localhost\n127.0.1.1 old\n")
	f.Add("127.0.1.1\told\n10.0.0.9\tx.example " + templates.HostsMark + "\r\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		left, why := withoutOwnLines(text)
		again, still := withoutOwnLines(left)
		if again != left || len(still) > 0 || (len(why) == 0) != (left == text) {
			t.Fatalf("%q: %q, %q", left, why, still)
		}
		all := fmt.Sprint(strings.SplitAfter(text, "\n"))
		for _, line := range strings.SplitAfter(left, "\n") {
			if !strings.Contains(all, line) {
				t.Fatalf("the line %q is not in the original", line)
			}
		}
	})
}

// twice checks that reversing a reversed text changes nothing and reports the same
// unknown values.
func twice(t *testing.T, reverse reverser, text, template []byte) {
	once, err := reverse(text, template)
	if err != nil {
		return
	}
	again, err := reverse(once.Content, template)
	require.NoError(t, err, "%q", once.Content)
	require.Equal(t, string(once.Content), string(again.Content))
	require.Equal(t, once.Unknown, again.Unknown)
}

// FuzzReverseKubeconfig reverses any text without a panic; a second pass changes
// nothing. A template filled with valid values becomes the template again.
func FuzzReverseKubeconfig(f *testing.F) {
	template := templateText(templates.Kubeconfig)
	f.Add(template, "https://x.eks.amazonaws.com", "a", "us-east-1")
	f.Add(joinedKubeconfig, "https://[::1]:443/path?q=\"'", "0_-", "us-gov-west-1")
	f.Add("server: \n- -i\n- --region\n-", "https://", "CLUSTER_NAME", "cn-north-1")
	f.Fuzz(func(t *testing.T, text, endpoint, cluster, region string) {
		twice(t, reverseKubeconfig, []byte(text), []byte(template))
		endpoint = "https://" + strings.TrimPrefix(endpoint, "https://")
		if strings.ContainsAny(endpoint, "\n\r") || !clusterName().MatchString(cluster) || !regionName().MatchString(region) {
			return
		}
		filled := strings.NewReplacer(endpointPlaceholder, endpoint, clusterPlaceholder, cluster, regionPlaceholder, region).Replace(template)
		back, err := reverseKubeconfig([]byte(filled), []byte(template))
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		if strings.TrimSpace(endpoint) == endpoint && !strings.HasSuffix(endpoint, `"`) && !strings.HasSuffix(endpoint, "'") {
			require.Equal(t, template, string(back.Content))
		}
	})
}

// FuzzReverseContainerdConfig does the same as FuzzReverseKubeconfig for the pause
// image.
func FuzzReverseContainerdConfig(f *testing.F) {
	template := templateText(templates.ContainerdConfig)
	f.Add(template, "123456789012", "us-west-2", "amazonaws.com", ":3.10")
	f.Add(joinedContainerd, "000000000000", "cn-north-1", "amazonaws.com.cn", "@sha256:0")
	f.Add("sandbox_image = 'x'\nsandbox = \"\" # y", "", "", "", "")
	f.Fuzz(func(t *testing.T, text, account, region, domain, tag string) {
		twice(t, reverseContainerdConfig, []byte(text), []byte(template))
		image := account + ".dkr.ecr." + region + "." + domain + "/eks/pause" + tag
		if !pauseImage().MatchString(image) || strings.ContainsAny(image, "\n\r\"'") {
			return
		}
		filled := strings.Replace(template, sandboxPlaceholder, image, 1)
		back, err := reverseContainerdConfig([]byte(filled), []byte(template))
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		require.Equal(t, template, string(back.Content))
	})
}

// FuzzReverseKubeletConfig sets the keys of a bootstrap to any JSON values. They
// are reversed to the template's.
func FuzzReverseKubeletConfig(f *testing.F) {
	template := []byte(templateText(templates.KubeletConfig))
	f.Add(string(template), `17`, uint16(0xffff))
	f.Add(`{"maxPods":1,"maxPods":2}`, `{"cpu":"70m"}`, uint16(1))
	f.Add(`{"a":1}{`, `["10.100.0.10"]`, uint16(0x10))
	f.Fuzz(func(t *testing.T, text, value string, keys uint16) {
		twice(t, reverseKubeletConfig, []byte(text), template)
		if !json.Valid([]byte(value)) {
			return
		}
		filled, err := parseObject(template)
		require.NoError(t, err)
		for i, key := range bootstrapKeys {
			if keys&(1<<i) != 0 {
				filled.set(key, json.RawMessage(value))
			}
		}
		out, err := filled.text()
		require.NoError(t, err)
		back, err := reverseKubeletConfig(out, template)
		require.NoError(t, err)
		require.Empty(t, back.Unknown)
		require.True(t, equivalent(back.Content, template), "%s", back.Content)
	})
}

// First boot sets resolvConf to the name servers of systemd-resolved; every
// other value, and a template's, is a user's.
func TestResolvConfOfFirstBootIsTakenBack(t *testing.T) {
	const first = `"/run/systemd/resolve/resolv.conf"`
	template := []byte(templateText(templates.KubeletConfig))
	with := func(text []byte, value string) []byte {
		o, err := parseObject(text)
		require.NoError(t, err)
		o.set("resolvConf", json.RawMessage(value))
		text, err = o.text()
		require.NoError(t, err)
		return text
	}
	for name, c := range map[string]struct{ current, template, want []byte }{
		"first boot's":   {with(template, first), template, template},
		"a user's":       {with(template, `"/etc/own.conf"`), template, with(template, `"/etc/own.conf"`)},
		"the template's": {with(template, first), with(template, first), with(template, first)},
		"no text":        {with(template, `7`), template, with(template, `7`)},
	} {
		t.Run(name, func(t *testing.T) {
			back, err := reverseKubeletConfig(c.current, c.template)
			require.NoError(t, err)
			assert.True(t, equivalent(back.Content, c.want), "%s", back.Content)
		})
	}
}

// hostileNames are file names that careless programs handle wrongly.
var hostileNames = []string{"new\nline", "\xff\xfe", "-rf", "* ?", `back\slash [x]`, "..x", " "}

// noted describes all files below a folder: path → kind, mode, owner, and content
// or link target. Sizes and times of folders change with their files and are left
// out.
func noted(t *testing.T, folder string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		note := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			require.NoError(t, err)
			note += " -> " + target
		case d.Type().IsRegular():
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			note += " " + string(text)
		}
		if name := strings.TrimPrefix(p, folder); name != "" {
			got[name] = note
		}
		return nil
	}))
	return got
}

// lay builds an image in a folder, from the same map as tree.
func lay(t *testing.T, root string, files map[string]string) *host.Host {
	t.Helper()
	hosttest.Lay(t, root, files)
	return hosttest.Mounted(t, root)
}

// surrounded is tree with a neighbouring folder. At the test's end that folder
// must be unchanged.
func surrounded(t *testing.T, files map[string]string) (h *host.Host, root string) {
	t.Helper()
	outside := t.TempDir()
	evil := filepath.Join(outside, "tree-evil") // starts like the root's name
	require.NoError(t, os.MkdirAll(filepath.Join(evil, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(evil, "etc/machine-id"), []byte("outside"), 0o644))
	before := noted(t, evil)
	t.Cleanup(func() { require.Equal(t, before, noted(t, evil), "files outside the image root changed") })
	root = filepath.Join(outside, "tree")
	require.NoError(t, os.Mkdir(root, 0o755))
	return lay(t, root, files), root
}

// onDisk is tree on a new ext4 file system of mib MiB without reserved blocks.
func onDisk(t *testing.T, mib int, files map[string]string) (h *host.Host, root string) {
	t.Helper()
	folder := t.TempDir()
	root = filepath.Join(folder, "mnt")
	shell(t, fmt.Sprintf("cd '%s'; mkdir mnt; truncate -s %dM disk; mke2fs -q -F -t ext4 -m 0 disk; mount -o loop disk mnt", folder, mib))
	t.Cleanup(func() { shell(t, "umount '"+root+"'") })
	return lay(t, root, files), root
}

func shell(t *testing.T, script string) {
	t.Helper()
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	require.NoError(t, err, "%s: %s", script, out)
}

func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	require.NoError(t, err, "%v", argv)
	return string(out)
}
