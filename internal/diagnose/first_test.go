package diagnose

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// collect is what the text says about collecting logs.
const collect = `collect the whole logs: the first two commands on the node, the last one elsewhere
  journalctl --boot --no-pager --output short-precise > journal.log
  eksnode diagnose journal.log /var/log/cloud-init-output.log
  eksnode diagnose INSTANCE --region REGION
`

// printed is the text of a report.
func printed(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, r.Print(&b))
	return b.String()
}

// searched is the report about logs, each with its name before the first line.
func searched(t *testing.T, logs ...string) Report {
	t.Helper()
	s := NewSearch(t.Context())
	for _, l := range logs {
		name, text, _ := strings.Cut(l, "\n")
		require.NoError(t, s.Log(Log{name, strings.NewReader(text)}))
	}
	return s.Report()
}

// The first failure of all logs has the earliest time, whatever the form of the time
// and the order of the logs. A line without a time has that of the line before it.
func TestTheFirstFailureIsTheEarliest(t *testing.T) {
	const kubelet = "kubelet.log\n" + `E1120 20:11:13.325154   11577 strange.go:1] "Nobody has seen this before" err="strange"`
	for want, log := range samples("earliest.txt") {
		for _, logs := range [][]string{{kubelet, log}, {log, kubelet}} {
			r := searched(t, logs...)
			assert.Equal(t, Unknown, r.Result())
			require.NotNil(t, r.First)
			assert.Equal(t, want, r.First.Unit)
		}
		r := searched(t, strings.ReplaceAll(kubelet, "E1120", "E1031"), log)
		assert.Equal(t, "kubelet.log", r.First.Unit, "if the kubelet failed earlier, %s is second", want)
	}
	assert.Equal(t, "kubelet.log", searched(t, "notes\nsomething failed", kubelet).First.Unit, "lines without any time come last")
	assert.Equal(t, "notes", searched(t, "notes\nsomething failed", "more\nanother failure").First.Unit)
	for _, line := range []string{"error: something failed", "E1120 20:11:13.325154   11577 a.go:1] failed: x", "2026-11-20 20:11:10 ERROR x: it failed", "2026-11-20T20:11:12.325154898Z stderr F error: failed"} {
		assert.Equal(t, "log", searched(t, "log\n"+line).First.Unit, line)
	}
	for _, line := range []string{"kubelet[640]: something failed", "[   13.0] kubelet[640]: something failed", "Nov 20 20:11:13 host kubelet: something failed", "Nov  2 20:11:13 host kubelet[2]: something failed"} {
		assert.Equal(t, "kubelet", searched(t, "log\n"+line).First.Unit, line)
	}
}

func TestTheReportOfAnUnknownCauseNamesTheFirstFailure(t *testing.T) {
	r := searched(t, "kubelet\nE1120 20:11:13.325154   11577 strange.go:1] \"Nobody has seen this before\"\nE1120 20:11:13.325154   11577 strange.go:2] \"Another error\"",
		"journal\nNov 20 20:11:10 ip-10-0-1-2 systemd[1]: odd.service: Failed with result 'exit-code'.")
	assert.Equal(t, `unknown: no known cause was found
the first failure, of odd.service:
  journal:1: Nov 20 20:11:10 ip-10-0-1-2 systemd[1]: odd.service: Failed with result 'exit-code'.
the first lines that look like errors:
  kubelet:1: E1120 20:11:13.325154   11577 strange.go:1] "Nobody has seen this before"
  kubelet:2: E1120 20:11:13.325154   11577 strange.go:2] "Another error"
  journal:1: Nov 20 20:11:10 ip-10-0-1-2 systemd[1]: odd.service: Failed with result 'exit-code'.
`+collect, printed(t, r))
}

// A log of a node that joined says so, even if it has lines that look like errors.
func TestTheReportOfAJoinedNodeSaysSo(t *testing.T) {
	const registered = `Nov 20 20:11:14 ip-10-0-1-2 kubelet[640]: I1120 20:11:14.576016     640 kubelet_node_status.go:78] "Successfully registered node" node="a"` + "\n"
	r := searched(t, "journal\n"+lines["unauthorized"][1]+"\n"+registered+registered+
		`I1120 20:11:24.576016     640 kubelet_node_status.go:439] "Fast updating node status as it just became ready"`+"\n")
	assert.Equal(t, `joined: the node joined its cluster, and no known cause was found
  journal:2: `+registered+`  journal:4: I1120 20:11:24.576016     640 kubelet_node_status.go:439] "Fast updating node status as it just became ready"
lines that look like errors:
  journal:1: `+lines["unauthorized"][1]+"\n", printed(t, r))
	assert.Equal(t, "joined: the node joined its cluster, and no known cause was found\n  journal:1: "+registered,
		printed(t, searched(t, "journal\n"+registered)))
	for _, line := range []string{
		`{"level":"info","ts":"2026-11-20T20:11:14.993Z","caller":"entrypoint.sh","msg":"Successfully copied CNI plugin binary and config file."}`,
		`{"__REALTIME_TIMESTAMP":"1795205472000000","MESSAGE":"I1120 20:11:14.576016     640 kubelet_node_status.go:78] \"Successfully registered node\" node=\"a\""}`,
		`Warning  NodeReady  3m  kubelet  Node ip-10-0-1-2.eu-west-1.compute.internal status is now: NodeReady`,
	} {
		assert.Equal(t, Joined, searched(t, "log\n"+line).Result(), line)
	}
	assert.Equal(t, Found, searched(t, "log\n"+registered+lines["unauthorized"][1]).Result())
	events := []string{"Node a status is now: NodeReady", "Node a status is now: NodeNotReady",
		"Node a status is now: NodeReady"}
	assert.Equal(t, Joined, searched(t, "events\n"+strings.Join(events, "\n")).Result())
	assert.Equal(t, Unknown, searched(t, "events\n"+strings.Join(events[:2], "\n")).Result(), "it was ready before")
}

// Levels decide before words do.
func TestLinesThatLookLikeErrors(t *testing.T) {
	for line, want := range map[string]bool{
		`{"level":"info","msg":"no error"}`:                            false,
		`{"level":"error","msg":"an error"}`:                           true,
		`[INFO] the failed step was repeated`:                          false,
		`2026-11-20 20:11:10,123 - util.py[DEBUG]: failed to be read`:  false,
		`2026-11-20 20:11:10,123 - util.py[WARNING]: Failed`:           true,
		`time="2026-11-20" level=warning msg="cannot"`:                 false,
		`E1120 20:11:13.325154   11577 a.go:1] "Strange"`:              true,
		`Nov 20 20:11:13 h kubelet[1]: F1120 20:11:13.3 1 a.go:1] "x"`: true,
		`I1120 20:11:13.325154   11577 a.go:1] "Failed"`:               false,
		`odd: command failed`:                                          true,
		`all is well`:                                                  false,
	} {
		assert.Equal(t, want, NewSearch(t.Context()).template(line, "").bad, line)
	}
}

func TestMomentsOfLines(t *testing.T) {
	at := func(month time.Month, day, hour, minute, second, millis int) time.Time {
		return time.Date(2000, month, day, hour, minute, second, millis*int(time.Millisecond), time.UTC)
	}
	for line, want := range map[string]time.Time{
		`E0606 19:33:03.790000 1 a.go:1] x`:                                  at(6, 6, 19, 33, 3, 790),
		`Jun 06 19:33:03 ip-10-0-1-2 kubelet[1]: E0607 10:00:00.0 1 a.go] x`: at(6, 6, 19, 33, 3, 0),
		`juin 06 19:33:03 h x: y`:                                            at(6, 6, 19, 33, 3, 0),
		`juil. 06 19:33:03 h x: y`:                                           at(7, 6, 19, 33, 3, 0),
		`Mai 06 19:33:03 h x: y`:                                             at(5, 6, 19, 33, 3, 0),
		`Mär 06 19:33:03 h x: y`:                                             at(3, 6, 19, 33, 3, 0),
		`6月 06 19:33:03 h x: y`:                                              at(6, 6, 19, 33, 3, 0),
		`2021-01-08 14:01:22,123 - x`:                                        at(1, 8, 14, 1, 22, 123),
		`time="2021-01-08T14:01:22.5+02:00" x`:                               at(1, 8, 12, 1, 22, 500),
		`2021-01-01T00:30:00-0100 x`:                                         at(1, 1, 1, 30, 0, 0),
		`SDK 2024/04/04 08:57:17 DEBUG x`:                                    at(4, 4, 8, 57, 17, 0),
		`{"level":"info","ts":1738720551.57,"msg":"x"}`:                      at(2, 5, 1, 55, 51, 570),
		`running 'init' at Fri, 11 Apr 2025 10:11:12 +0000. Up 7.22 seconds`: at(4, 11, 10, 11, 12, 0),
	} {
		assert.Equal(t, want, moment(line), line)
	}
	for _, line := range []string{"", "x", "[  306.3] x", "E9999 99:99:99 x", "xyz 06 19:33:03 h x: y", "E1306 19:33:03 x"} {
		assert.Zero(t, moment(line), line)
	}
}

// Without a text of some length, an expression runs on most lines of a journal.
func TestEveryPatternHasATextToSearchFor(t *testing.T) {
	for i, p := range patterns() {
		for _, e := range p.lines {
			assert.GreaterOrEqual(t, shortest(e.literals), 5, "%s: %s", Rules()[i].ID, e)
		}
	}
	assert.Equal(t, []string{"one", "two", "[]"}, compile(`x?(one|two|\[\]).*`)[0].literals)
	assert.Equal(t, []string{"longer"}, compile(`(one|two).*longer`)[0].literals)
	assert.Equal(t, []string{""}, compile(`[a-z]+`)[0].literals)
}

// The index finds what a search for each text finds.
func TestTheIndexFindsEveryCandidate(t *testing.T) {
	all := strings.Split(goodStart, "\n")
	for _, samples := range lines {
		all = append(all, samples...)
	}
	x, places := candidates(), []int{7}
	for _, line := range append(all, strings.Join(all, " "), "", "err") {
		var want []int
		for at, c := range x.list {
			if slices.ContainsFunc(c.literals, func(text string) bool { return strings.Contains(line, text) }) {
				want = append(want, at)
			}
		}
		places, _ = x.read(line, places)
		assert.ElementsMatch(t, want, places, line)
		assert.True(t, slices.IsSorted(places))
	}
}

var differs = regexp.MustCompile(`\d\d:\d\d:\d\d(?:[.,]\d+)?|\b[0-9a-f]{8,}\b|\[\d{2,}\]:|:\d{5}->`)

// again is a line with other times, processes, ports and containers.
func again(line string, n uint32) string {
	other := func(c rune) rune {
		if c < '0' || c > '9' {
			return c
		}
		n = n*1664525 + 1013904223
		return '0' + rune(n>>16%6)
	}
	return differs.ReplaceAllStringFunc(line, func(number string) string { return strings.Map(other, number) })
}

// Most lines of the stretches of journals in testdata are errors. They come again and again.
func BenchmarkSearch(b *testing.B) {
	journals, err := os.ReadFile("testdata/journals.txtar")
	require.NoError(b, err)
	for name, form := range map[string]string{
		"text": "%s\n", "zap": `{"level":"error","ts":"2026-11-20T20:11:12.325Z","logger":"controller","error":%q}` + "\n",
		"journal": `{"_BOOT_ID":"5a1f0d27c1e04f7a8a4a7c3f3b1d9e66","_TRANSPORT":"stdout","__REALTIME_TIMESTAMP":"17952054723",` +
			`"_CMDLINE":"/usr/bin/kubelet --config /etc/kubernetes/kubelet/config.json","_SYSTEMD_UNIT":"kubelet.service",` +
			`"PRIORITY":"6","_HOSTNAME":"ip-10-0-1-2","_PID":"1790","SYSLOG_IDENTIFIER":"kubelet","MESSAGE":%q}` + "\n",
	} {
		var text strings.Builder
		for n := uint32(0); text.Len() < 10<<20; n++ {
			for line := range strings.Lines(string(journals)) {
				fmt.Fprintf(&text, form, again(strings.TrimSuffix(line, "\n"), n))
			}
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				require.NoError(b, NewSearch(b.Context()).Log(Log{"journal", strings.NewReader(text.String())}))
			}
		})
	}
}

// A log of several boots is about the last one.
func TestTheLastBootCounts(t *testing.T) {
	swap, refused := lines["swap"][0], `kubelet[1]: "Unable to register node with API server" err="Unauthorized"`
	const registered = `kubelet[1]: "Successfully registered node" node="a"`
	entry := func(boot, text string) string { return `{"_BOOT_ID":"` + boot + `","MESSAGE":` + quoted(text) + `}` }
	separators := []string{
		"-- Reboot --", "-- Boot 0123456789abcdef0123456789abcdef --",
		"Nov 20 20:11:12 ip-10-0-1-2 kernel: Linux version 6.1.0-28 (builder@host) (gcc 14) #1 SMP",
		"[    0.000000] Linux version 6.1.0-28 (builder@host) (gcc 14) #1 SMP",
	}
	for _, between := range separators {
		for _, c := range []struct {
			lines []string
			want  string
		}{
			{[]string{swap, between, refused}, "unauthorized"},
			{[]string{swap, between, registered}, Joined},
			{[]string{registered, between, swap}, "swap"},
			{[]string{swap, between, "the machine was started again"}, "swap"},
			{[]string{swap, between, "one", between, "two"}, "swap"},
			{[]string{registered, between, "one"}, Joined},
			{[]string{between, swap}, "swap"},
		} {
			r := report(t, c.lines...)
			got := r.Result()
			if got == Found {
				require.Len(t, r.Findings, 1, c.lines)
				got = r.Findings[0].Rule.ID
			}
			assert.Equal(t, c.want, got, strings.Join(c.lines, "\n"))
		}
	}
	r := report(t, entry("a", swap), entry("b", refused))
	require.Len(t, r.Findings, 1)
	assert.Equal(t, "unauthorized", r.Findings[0].Rule.ID)
	// The first failure is that of the last boot, too.
	r = report(t, "Nov 20 20:11:12 a old[1]: a strange failure",
		"-- Reboot --", "Nov 20 21:11:12 a new[1]: a strange failure")
	assert.Equal(t, "new", r.First.Unit)
}
