package userdata

import (
	_ "embed"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

func node() Node {
	return Node{
		Cluster: Cluster{Name: "my-cluster", Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CA: authority, CIDR: "10.100.0.0/16"},
		Labels:  map[string]string{"team": "a", "example.com/zone": "b.c"},
		Taints:  []string{"dedicated=gpu:NoSchedule", "cold:NoExecute"},
		MaxPods: 58, AMI: "ami-0123456789abcdef0", Role: "node-role", Region: "eu-west-1",
	}
}

const flags = "--node-labels=example.com/zone=b.c,team=a --register-with-taints=dedicated=gpu:NoSchedule,cold:NoExecute"

// callIn returns the arguments with which user data of al2 calls bootstrap.sh.
func callIn(t *testing.T, text []byte) []string {
	t.Helper()
	parts := (&checker{found: &found{report: &Report{}}}).parts(string(text))
	require.Len(t, parts, 1)
	s, err := readShell(parts[0].Text, "bash")
	require.NoError(t, err)
	return show.Each(s.commands[1][1:], func(w word) string { return w.text })
}

// First boot's parser reads the rendered user data of al2 and ubuntu.
func TestBootstrapCallsRoundTrip(t *testing.T) {
	words := callIn(t, written(t, "al2", "", node()))
	a, err := arguments.Parse(words)
	require.NoError(t, err)
	require.NoError(t, a.Validate())
	want := arguments.New()
	want.Cluster, want.Endpoint, want.CA = "my-cluster", node().Cluster.Endpoint, authority
	want.DNS, want.UseMaxPods, want.KubeletExtraArgs = []string{"10.100.0.10"}, false, flags+" --max-pods=58"
	assert.Equal(t, want, a)
	ubuntu := written(t, "ubuntu", "", node())
	for _, w := range words {
		assert.Contains(t, string(ubuntu), w)
	}
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	plain, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return plain
}

func TestNodeConfigRoundTrips(t *testing.T) {
	text := written(t, "al2023", "", node())
	c, warnings, err := nodeconfig.Parse(text)
	require.NoError(t, err)
	assert.Empty(t, warnings)
	require.NoError(t, c.Validate())
	assert.Equal(t, nodeconfig.Cluster{
		Name: "my-cluster", APIServerEndpoint: node().Cluster.Endpoint, CertificateAuthority: decoded(t, authority), CIDR: "10.100.0.0/16",
	}, c.Spec.Cluster)
	assert.Equal(t, nodeconfig.Kubelet{
		Config: nodeconfig.Document{"maxPods": int64(58)}, Flags: strings.Split(flags, " "),
	}, c.Spec.Kubelet)
}

func TestBottlerocketRoundTrips(t *testing.T) {
	text := written(t, "bottlerocket", "", node())
	var document map[string]any
	require.NoError(t, toml.Unmarshal(text, &document))
	assert.Equal(t, map[string]any{"settings": map[string]any{"kubernetes": map[string]any{
		"cluster-name": "my-cluster", "api-server": node().Cluster.Endpoint, "cluster-certificate": authority,
		"cluster-dns-ip": "10.100.0.10", "max-pods": int64(58),
		"node-labels": map[string]any{"example.com/zone": "b.c", "team": "a"},
		"node-taints": map[string]any{"cold": []any{":NoExecute"}, "dedicated": []any{"gpu:NoSchedule"}},
	}}}, document)
}

func TestRenderForWindows(t *testing.T) {
	text := written(t, "windows", "", node())
	assert.Equal(t, `<powershell>
& "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1" `+"`"+`
  -EKSClusterName 'my-cluster' `+"`"+`
  -APIServerEndpoint 'https://ABC.gr7.eu-west-1.eks.amazonaws.com' `+"`"+`
  -Base64ClusterCA '`+authority+`' `+"`"+`
  -DNSClusterIP '10.100.0.10' `+"`"+`
  -ServiceCIDR '10.100.0.0/16' `+"`"+`
  -KubeletExtraArgs '`+flags+` --max-pods=58' `+"`"+`
  3>&1 4>&1 5>&1 6>&1
</powershell>
`, string(text))
}

// Check accepts rendered user data of every family, in the manifest of every tool.
func TestEveryFamilyPassesItsOwnCheck(t *testing.T) {
	for _, f := range Families() {
		carried := []string{""}
		if f.Carries {
			carried = nil
			for _, inner := range Families() {
				if !inner.Carries && (f.ID != "eksctl" || inner.eksctl != "") {
					carried = append(carried, inner.ID)
				}
			}
		}
		for _, inner := range carried {
			t.Run(f.ID+"/"+inner, func(t *testing.T) {
				text := written(t, f.ID, inner, node())
				r := checked(t, text, "")
				assert.Equal(t, f.ID, r.Family, "Check must recognize the family")
				assert.Empty(t, r.Problems)
				assert.Equal(t, "my-cluster", r.Cluster.Name)
				assert.Equal(t, node().Cluster.Endpoint, r.Cluster.Endpoint)
				assert.Equal(t, node().Cluster.CA, r.Cluster.CA)
				again := written(t, f.ID, inner, node())
				assert.Equal(t, string(text), string(again), "the same description must give the same bytes")
			})
		}
	}
}

func TestIPv6ClustersAreRendered(t *testing.T) {
	n := node()
	n.Cluster.CIDR = "fd00:1234::/108"
	for _, f := range Families() {
		if f.Carries || f.ID == windowsID {
			continue
		}
		text, err := Render(f.ID, "", n)
		require.NoError(t, err, f.ID)
		assert.Empty(t, checked(t, text, "").Problems, f.ID)
	}
	text := written(t, "al2", "", n)
	assert.Contains(t, string(text), "--ip-family 'ipv6' \\\n  --service-ipv6-cidr 'fd00:1234::/108'")
	assert.Equal(t, "fd00:1234::a", n.Cluster.DNS())
}

func TestInvalidDescriptionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		family, carried string
		change          func(*Node)
		want            string
	}{
		"family":              {"suse", "", func(*Node) {}, `user data of the family "suse" is not known; known are karpenter, eksctl, windows, al2023, ubuntu, bottlerocket, al2`},
		"carries nothing":     {"karpenter", "", func(*Node) {}, `user data of the family "" is not known; known are karpenter, eksctl, windows, al2023, ubuntu, bottlerocket, al2`},
		"carries a carrier":   {"karpenter", "eksctl", func(*Node) {}, "karpenter carries user data of a machine, and eksctl is none"},
		"name":                {"al2", "", func(n *Node) { n.Cluster.Name = "a b" }, `cluster.name: "a b" is not a cluster name: up to 100 letters, digits, - and _`},
		"all at once":         {"al2", "", func(n *Node) { n.Cluster = Cluster{Name: "a"} }, "cluster.endpoint: \"\" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com\ncluster.certificateAuthority: it must be base64, as DescribeCluster gives it\ncluster.cidr: \"\" is no network such as 10.100.0.0/16 or fd00:1234::/108"},
		"label":               {"al2", "", func(n *Node) { n.Labels = map[string]string{"a b": "c d"} }, "labels: \"a b\" is no label's name\nlabels: \"c d\" is no value for a b: up to 63 letters, digits, -, _ and ."},
		"taint":               {"al2", "", func(n *Node) { n.Taints = []string{"a=b:Never"} }, `taints: "a=b:Never" must be key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute`},
		"argument":            {"al2", "", func(n *Node) { n.KubeletArgs = []string{"v=2"} }, `kubeletArgs: "v=2" must be --name or --name=value`},
		"pods":                {"al2", "", func(n *Node) { n.MaxPods = -1 }, "maxPods: -1 must be from 0 to 1000"},
		"Bottlerocket's args": {"bottlerocket", "", func(n *Node) { n.KubeletArgs = []string{"--v=2"} }, "writing user data for bottlerocket: kubeletArgs: Bottlerocket's kubelet takes no flags, only the settings of settings.kubernetes"},
		"Karpenter's needs":   {"karpenter", "al2023", func(n *Node) { n.AMI, n.Role = "", "" }, "writing user data for karpenter: ami: \"\" is no image's id such as ami-0123456789abcdef0\nrole: the node role's name is missing"},
		"eksctl's needs":      {"eksctl", "windows", func(n *Node) { n.Region = "" }, "writing user data for eksctl: region: the cluster's region is missing\neksctl takes no bootstrap command for windows"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node()
			c.change(&n)
			_, err := Render(c.family, c.carried, n)
			assert.EqualError(t, err, c.want)
		})
	}
}

func TestParseNodeReadsADescription(t *testing.T) {
	n, err := ParseNode([]byte("cluster: {name: a, endpoint: b, certificateAuthority: c, cidr: d}\ntaints: [x]\n"))
	require.NoError(t, err)
	assert.Equal(t, Node{Cluster: Cluster{Name: "a", Endpoint: "b", CA: "c", CIDR: "d"}, Taints: []string{"x"}}, n)
	_, err = ParseNode([]byte("cluster: {nam: a}\n"))
	assert.EqualError(t, err, `the description:1: cluster.nam: unknown field; did you mean name?`)
}

func FuzzCheck(f *testing.F) {
	for _, family := range Families() {
		if !family.Carries {
			text := written(f, family.ID, "", node())
			f.Add(string(text), "")
		}
	}
	f.Add("\x94<powershell>", "") // invalid UTF-8 before the tag
	for _, text := range slowTexts(f)["bombs"] {
		f.Add(text[:min(len(text), 1000)], "")
	}
	f.Add("a <<X\n'\\", "al2")
	f.Add("<powershell>\n& a -EKSClusterName `", "windows")
	f.Fuzz(func(t *testing.T, text, family string) {
		r, err := Check([]byte(text), family) // must neither panic nor hang
		if err == nil {
			assert.NotNil(t, r.Problems)
		}
	})
}

// Check gives the verdicts of Amazon's nodeadm and of first boot: user data that first
// boot does not read fails, and user data that only Amazon's does not read is a warning.
func TestVerdictsAboutFormsOfNodeConfigs(t *testing.T) {
	names := map[string]bool{}
	for _, f := range nodeConfigForms(t) {
		require.False(t, names[f.Name], "%s: forms have names of their own", f.Name)
		names[f.Name] = true
		t.Run(f.Name, func(t *testing.T) {
			assert.Equal(t, f.Amazon, readByAmazon([]byte(f.Text), true) == nil, "Amazon's image")
			config, _, err := nodeconfig.Parse([]byte(f.Text))
			if err == nil {
				err = config.Validate()
			}
			assert.Equal(t, f.Image, err == nil, "this image: %v", err)
			report, err := Check([]byte(f.Text), "")
			if !f.Image {
				assert.True(t, err != nil || report.Failed(), "first boot does not read the form, and the check passes")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "al2023", report.Family)
			require.Len(t, report.Readers, 2)
			assert.Equal(t, Reader{Image: ThisImage, Reads: true}, report.Readers[0])
			assert.Equal(t, f.Amazon, report.Readers[1].Reads)
			refused := AmazonsImage + " does not read the user data: " + report.Readers[1].Reason
			warns := func(p Problem) bool { return p.Warning && p.Text == refused }
			assert.Equal(t, !f.Amazon, slices.ContainsFunc(report.Problems, warns))
		})
	}
}

// written is the user data of a family.
func written(t testing.TB, family, carried string, n Node) []byte {
	t.Helper()
	text, err := Render(family, carried, n)
	require.NoError(t, err)
	return text
}

// checked is the report on a text that can be read.
func checked(t testing.TB, text []byte, family string) Report {
	t.Helper()
	r, err := Check(text, family)
	require.NoError(t, err)
	return r
}
