//go:build linux

package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

type item struct{ rule.Rule }

func (i item) ID() string    { return i.Rule.ID }
func (i item) Phase() string { return string(i.Rule.Phase) }

func (i item) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	d := &rule.Draft{Ctx: ctx, Host: h}
	i.Rule.Plan(d, nil)
	return d.Answer, d.Err
}

func templateText(name string) string {
	all := templates.All()
	return string(all[slices.IndexFunc(all, func(t templates.Template) bool { return t.Path == name })].Content)
}

var joinedKubeconfig = strings.NewReplacer(
	"MASTER_ENDPOINT", "https://CE0253A94B6B14215AE3282580CFA5E3.yl4.cn-north-1.eks.amazonaws.com.cn",
	"CLUSTER_NAME", "old-cluster", "AWS_REGION", "cn-north-1",
).Replace(templateText(templates.Kubeconfig))

// A unit stands in one row: what a scrub stops, it does not also leave running and report.
func TestAUnitHasOneRow(t *testing.T) {
	rowsOf := map[string][]string{}
	for _, r := range rows() {
		for _, unit := range r.Units {
			rowsOf[unit] = append(rowsOf[unit], r.ID)
		}
	}
	for unit, ids := range rowsOf {
		assert.Len(t, ids, 1, unit)
	}
	assert.Equal(t, []string{"meshes-running"}, rowsOf["tailscaled.service"])
}

func TestRowsHaveTheirFunctions(t *testing.T) {
	for _, r := range All() {
		assert.True(t, r.Look != nil || r.Verb == plan.Remove || r.Verb == plan.Empty, "%s: no function", r.ID)
	}
	for _, r := range rows() {
		for _, p := range r.Programs {
			_, err := regexp.Compile(p.Says)
			require.NoError(t, err, r.ID)
			assert.Equal(t, r.Verb == rule.Report, p.Advice != "", "%s: %s", r.ID, p.Name)
		}
	}
	fewer, more := functions(), functions()
	delete(fewer, "machine-id")
	more["none"] = looks(emptyMachineID)
	_, err := bind(rows(), fewer)
	require.EqualError(t, err, "rule machine-id: the row and the functions disagree whether it has one")
	_, err = bind(rows(), more)
	require.EqualError(t, err, "functions of no row: none")
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
	f.Add(strings.Replace(template, "SANDBOX_IMAGE", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.5", 1), "000000000000", "cn-north-1", "amazonaws.com.cn", "@sha256:0")
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

// keyTree is a configuration of sshd, and files with keys.
type keyTree struct {
	Config       map[string]string
	Read, Unread []string
}

func keyTrees(t testing.TB) (all map[string]keyTree) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/keys.yaml")), &all))
	return all
}

func TestKeysOfAuthorizedKeysFileAreRemoved(t *testing.T) {
	for name, c := range keyTrees(t) {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n", "home/admin/": "", "home/ldap/": "", "etc/ssh/keys/README": "no key\n"}
			if slices.ContainsFunc(c.Read, func(n string) bool { return strings.HasPrefix(n, "/etc/ssh/keys/admin/") }) {
				delete(files, "etc/ssh/keys/README")
			}
			for n, text := range c.Config {
				files["etc/ssh/"+n] = text
			}
			for _, n := range slices.Concat(c.Read, c.Unread) {
				files[n[1:]] = "# comment\nssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIPS3PCZ1 me@here\n"
			}
			h := hosttest.Root(t, files)
			r := item{All()[slices.IndexFunc(All(), func(r rule.Rule) bool { return r.ID == "authorized-keys-elsewhere" })]}
			outcomes, err := plan.Apply(t.Context(), h, []plan.Item{r}, nil)
			require.NoError(t, err)
			removed := show.Each(outcomes[0].Actions, func(a plan.Action) string { return a.Target })
			assert.ElementsMatch(t, c.Read, removed)
			for _, n := range c.Read {
				assert.NoFileExists(t, filepath.Join(h.Root(), n))
			}
			for _, n := range c.Unread {
				assert.FileExists(t, filepath.Join(h.Root(), n))
			}
			answer, err := r.Plan(t.Context(), h)
			require.NoError(t, err)
			assert.Empty(t, append(answer.Findings, outcomes[0].Findings...))
		})
	}
}

// FuzzSSHDConfig reads any text as sshd's configuration. Each setting has a
// keyword in lower case, and includes of the file by itself end with an error.
func FuzzSSHDConfig(f *testing.F) {
	for _, c := range keyTrees(f) {
		f.Add(c.Config["sshd_config"])
	}
	f.Add("Include sshd_config\n")
	f.Add("AuthorizedKeysFile \"a\\\" b' c\n=\n\"x\" y")
	f.Fuzz(func(t *testing.T, text string) {
		h := hosttest.Root(t, map[string]string{"etc/ssh/sshd_config": text})
		for _, s := range readSSHD(&rule.Draft{Host: h}).settings {
			require.Equal(t, strings.ToLower(s.keyword), s.keyword)
			require.NotEmpty(t, s.keyword)
			require.Positive(t, s.line)
		}
	})
}

// FuzzKnownTemplates asks whether any text turns back into a known template. A
// text that does is restored once, and then stays as it is.
func FuzzKnownTemplates(f *testing.F) {
	f.Add(joinedKubeconfig)
	f.Add("---\n" + joinedKubeconfig)
	f.Add(strings.Replace(templateText(templates.Kubeconfig), "v1beta1", "v1alpha1", 1))
	f.Add(templateText(templates.KubeletConfig))
	f.Add(templateText(templates.ContainerdConfig))
	f.Fuzz(func(t *testing.T, text string) {
		for _, tmpl := range templates.All() {
			if !isKnown(tmpl, []byte(text)) {
				continue
			}
			back, err := reversers[tmpl.Path]([]byte(text), tmpl.Content)
			require.NoError(t, err)
			require.True(t, isKnown(tmpl, back.Content))
		}
	})
}

var reversers = map[string]reverser{templates.Kubeconfig: reverseKubeconfig, templates.KubeletConfig: reverseKubeletConfig, templates.ContainerdConfig: reverseContainerdConfig}

func TestServersInKubeconfigs(t *testing.T) {
	for text, want := range map[string][]string{
		"    server: https://API.corp.internal:6443\n":                                     {"api.corp.internal"},
		"- cluster: {certificate-authority: x}\n  server: \"https://[fd00::1]:443\"":       nil,
		"server: 'https://[fd00:1:2::1]:6443'":                                             {"[fd00:1:2::1]:6443"},
		"server: https://10.1.2.3":                                                         {"https://10.1.2.3"},
		"server: MASTER_ENDPOINT":                                                          nil,
		"server: https://127.0.0.1:6443":                                                   nil,
		"server: https://localhost.localdomain":                                            nil,
		"server: https://kubernetes.default.svc":                                           nil,
		"server: https://%zz":                                                              nil,
		"server: https://short.io":                                                         {"short.io"},
		"server: https://0123456789abcdef0123456789ABCDEF.gr7.eu-west-1.eks.amazonaws.com": nil,
		"server: https://a.b":                                                              nil,
		"proxy-server: https://other.internal":                                             nil,
		"":                                                                                 nil,
	} {
		assert.Equal(t, want, serversIn(text), text)
	}
}

// FuzzServersIn reads any kubeconfig.
func FuzzServersIn(f *testing.F) {
	f.Add("server: https://api.corp.internal:6443\n")
	f.Add("- server: \"https://[::1]:1\"\n  server: http://\xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range serversIn(text) {
			require.True(t, isClustersOwn(name))
		}
	})
}

func TestNamesLeaveOtherLines(t *testing.T) {
	v := judgeNames("", "DEVICE=eth0\nHWADDR=52:54:00:12:34:56\n#HOSTNAME=kept\nHOSTNAME=localhost\nDHCP_HOSTNAME=builder\nONBOOT=yes")
	assert.Equal(t, "DEVICE=eth0\n#HOSTNAME=kept\nHOSTNAME=localhost\nONBOOT=yes", string(v.left))
}

// FuzzProfiles judges any text as a profile of every form. Of a profile with
// lines of one machine, the rest is judged as one of every machine.
func FuzzProfiles(f *testing.F) {
	for _, text := range []string{
		"[connection]\ntype=802-3-ethernet\n[ethernet]\ncloned-mac-address=52:54:00:12:34:56\n[ipv6]\naddresses=2001:db8::5/64\n",
		"DEVICE=eth0\nHWADDR=52:54:00:12:34:56\nIPADDR=10.0.0.5\n", "[Match]\nMACAddress=52:54:00:12:34:56\n[Network]\nAddress=10.0.0.5/24\n",
		"network:\n  ethernets:\n    eth0: {addresses: [10.0.0.5/24], match: {macaddress: 52:54:00:12:34:56}}\n",
		"iface eth0 inet static\n  address 10.0.0.5\n  hwaddress 52:54:00:12:34:56\n",
	} {
		f.Add("/x", text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for pattern, judge := range judges() {
			v := judge(name, text)
			if v.left == nil {
				continue
			}
			if again := judge(name, string(v.left)); again.left != nil || again.why != "" || len(v.left) >= len(text) {
				t.Fatalf("%s: %q: %q, then %+v", pattern, text, v.left, again)
			}
		}
	})
}
