package diagnose

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// samples are the texts of a file of testdata by their names, without comments.
func samples(file string) map[string]string {
	a, err := txtar.ParseFile("testdata/" + file)
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for _, f := range a.Files {
		all[f.Name] = comment.ReplaceAllString(string(f.Data), "")
	}
	return all
}

var comment = regexp.MustCompile(`(?m)^## .*\n`)

// lines are those of testdata/lines.txt by rule.
var lines = func() map[string][]string {
	all := map[string][]string{}
	for rule, text := range samples("lines.txt") {
		all[rule] = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	return all
}()

func TestEveryRuleMatchesItsSampleLines(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			require.NotEmpty(t, lines[r.ID], "the rule has no sample line")
			for _, line := range lines[r.ID] {
				var ids []string
				for _, f := range searched(t, "kubelet\nI0419 15:10:12.000000 an ordinary line\n"+line+"\n").Findings {
					ids = append(ids, f.Rule.ID)
					assert.Equal(t, 1, f.Count)
				}
				assert.Contains(t, ids, r.ID, line)
				for _, id := range ids {
					assert.True(t, id == r.ID || together[r.ID] == id, "%s must not match this line: %s", id, line)
				}
			}
		})
	}
	assert.Len(t, lines, len(Rules()))
}

func TestEveryPatternMatchesALine(t *testing.T) {
	for _, r := range Rules() {
		for _, text := range r.Lines {
			p := regexp.MustCompile(text)
			assert.True(t, slices.ContainsFunc(lines[r.ID], p.MatchString), "%s: no line matches %s", r.ID, text)
		}
	}
}

// together lists rules whose lines another rule matches too.
var together = map[string]string{
	"template": "dns", "metadata": "", "pause-image": "",
}

// leftovers.json has logs of nodes with leftover state that did not join, or whose
// pods did not run. Their cause is found.
func TestCausesOfLeftoverStateAreFound(t *testing.T) {
	text, err := os.ReadFile("../../docs/generate/leftovers.json")
	require.NoError(t, err)
	var records []struct{ Rule, Result, Message string }
	require.NoError(t, json.Unmarshal(text, &records))
	want := map[string][]string{
		"everything": {"unauthorized", "other-ca", "other-node"}, "kubelet-manager-state": {"checkpoint"}, "kubelet-drop-ins": {"kubelet-flags"},
		"kubelet-kubeconfig": {"other-ca", "templates"}, "bootstrap-units": {"other-node"}, "cni-state": {"addresses"}, "cni-config": {"cni-config"},
		"kubelet-checkpoints": {"checkpoint"},
	}
	looked := 0
	for _, r := range records {
		said, pods := strings.CutPrefix(r.Message, "its pods do not run: ")
		if r.Result != "does not join" && !pods {
			continue // visible in the node's object, not in its logs
		}
		looked++
		found := searched(t, "kubelet\n"+said).Findings
		require.Len(t, found, 1, "%s: %s", r.Rule, said)
		assert.Contains(t, want[r.Rule], found[0].Rule.ID, said)
	}
	assert.NotZero(t, looked)
}

func TestConsequencesAreListedAfterTheirCause(t *testing.T) {
	r := searched(t, "kubelet\n"+strings.Repeat(lines["unauthorized"][1]+"\n", 5), "init\n"+lines["captured-node"][1])
	assert.Equal(t, `captured-node: this image was captured from a joined node: it contains another cluster's endpoint, certificates or state
  init:1: leftover-state: remove /var/lib/kubelet/pki (the file belongs to the cluster at https://CE02.yl4.cn-north-1.eks.amazonaws.com.cn)
  certain: the lines say what is wrong
  remedy: run `+"`eksnode scrub`"+` before the image is captured; init has removed the leftover state on this node
    sudo eksnode scrub --dry-run
  page: https://github.com/eksnode/packer-plugin-eksnode/blob/main/docs/reference/causes.md#captured-node

unauthorized: the API server cannot identify the node: the node's role is not mapped, or its token is for another cluster
  consequence of captured-node
  kubelet:1: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  kubelet:2: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  kubelet:3: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  and 2 more
  likely: the lines may also mean that the clock of the node is wrong, or the security token service is off in the region
  remedy: create an access entry of type EC2_LINUX for the node's role (not the profile), or map it in aws-auth without a path; the cluster's name and the endpoint in the user data must belong together; an image captured from a joined node needs `+"`eksnode scrub`"+`
    eksnode preflight --cluster NAME --instance ID
    aws eks list-access-entries --cluster-name NAME
    eksnode manifests --cluster NAME --role ARN --only access-entry
  page: https://github.com/eksnode/packer-plugin-eksnode/blob/main/docs/reference/causes.md#unauthorized
`, printed(t, r))
}

// A problem is a finding only if no later line shows that the problem ended.
func TestResolvedProblemsAreNoFindings(t *testing.T) {
	ill := strings.Join([]string{
		lines["unauthorized"][1], lines["dns"][0], lines["blocked"][0], lines["other-ca"][0], lines["network-plugin"][0], lines["containerd"][0], lines["serving-certificate"][0],
	}, "\n") + "\n"
	const joins = `I1122 06:51:44.576016     640 kubelet_node_status.go:78] "Successfully registered node" node="a"` + "\n"
	const ready = `I1122 06:51:54.576016     640 kubelet_node_status.go:439] "Fast updating node status as it just became ready"` + "\n"
	const certified = `I1122 06:51:55.576016     640 certificate_manager.go:715] "Certificate rotation deadline determined" logger="kubernetes.io/kubelet-serving"` + "\n"
	ids := func(logs ...string) (all []string) {
		for _, f := range searched(t, logs...).Findings {
			all = append(all, f.Rule.ID)
		}
		return all
	}
	kubelet := func(text string) string { return "kubelet\n" + text }
	assert.Len(t, ids(kubelet(ill)), 7)
	assert.ElementsMatch(t, []string{"network-plugin", "containerd", "serving-certificate"}, ids(kubelet(ill+joins)))
	assert.Equal(t, []string{"serving-certificate"}, ids(kubelet(ill+joins+ready)))
	assert.Empty(t, ids(kubelet(ill+joins+ready+certified)))
	assert.Equal(t, []string{"unauthorized"}, ids(kubelet(ill+joins+ready+certified+lines["unauthorized"][1])))
	before := "init\n" + lines["metadata"][0] + "\n" + lines["unauthorized"][1]
	assert.Empty(t, ids(before, kubelet(joins)))
	assert.Empty(t, ids(kubelet(joins), before), "the order of the logs must not matter")
	assert.Equal(t, []string{"unauthorized"}, ids(kubelet(joins+lines["unauthorized"][1]), kubelet(ill+joins+ready+certified)))
	assert.Empty(t, ids(kubelet(`level=error msg="failed to load cni during init, please check CRI plugin status before setting up network for pods" error="cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"`)))
}

// A rule that only points to other logs is left out if a cause is found.
func TestGeneralRulesAreLeftOutWithACause(t *testing.T) {
	found := searched(t, "console\n"+lines["first-boot"][0]+"\n"+lines["node-config"][2]+"\n").Findings
	require.Len(t, found, 1)
	assert.Equal(t, "node-config", found[0].Rule.ID)
}

func TestLongLinesAreCutAroundTheMatch(t *testing.T) {
	found := searched(t, "kubelet\n"+lines["unauthorized"][0]).Findings
	require.Len(t, found, 1)
	assert.Less(t, len(found[0].Evidence[0]), 400)
	assert.Contains(t, found[0].Evidence[0], "'Unauthorized' (will not retry!)")
}

func TestUnreadableLogsAreNamed(t *testing.T) {
	s := NewSearch(t.Context())
	assert.EqualError(t, s.Log(Log{"kubelet", iotest.ErrReader(errors.New("gone"))}), "reading kubelet: gone")
	require.NoError(t, s.Log(Log{"init", strings.NewReader(lines["swap"][0])}))
	assert.Len(t, s.Report().Findings, 1, "the other logs must still be read")
}

func FuzzLogs(f *testing.F) {
	for _, all := range lines {
		f.Add(strings.Join(all, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := NewSearch(t.Context())
		require.NoError(t, s.Log(Log{"x", strings.NewReader(text)}))
		r := s.Report()
		require.NoError(t, r.Print(io.Discard))
		if r.First != nil {
			assert.NotEmpty(t, r.First.Unit)
			assert.NotEmpty(t, r.Errors)
		}
	})
}
