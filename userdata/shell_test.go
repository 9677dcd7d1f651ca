package userdata

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// scriptSamples returns valid and broken scripts that are common in user data.
func scriptSamples() []string {
	return []string{
		"echo a", "echo 'a", `echo "a`, "echo `a", "echo $(a", "echo ${a", "echo $((1+2))", "echo $((1+", "if true; then echo; fi", "if true; then echo",
		"for i in a b; do echo $i; done", "for i in a b; do echo $i", "while read -r l; do echo; done < <(ls)", "case $a in b) echo ;; esac", "case $a in b) echo ;;",
		"a=(b c)", "a=(b c", "f() { echo; }", "f() { echo", "function f { echo; }", "[[ $a == b* && -f /c ]] && echo", "[[ $a", "cat <<EOF\na\nEOF", "cat <<EOF\na",
		"cat <<-'EOF'\n\ta\n\tEOF", "a | b && c || d", "a |", "&& a", "; a", "( a", "a )", "{ a; }", "}", "done", "fi", "then", "a \\\n  --b", "a \\ \n  --b", "echo \"$(echo \"a\")\"",
		"exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1", "export A=b C=d", "set -o errexit -o pipefail", "trap 'echo $?' EXIT", "echo ${a:-b} ${a//b/c} ${#a} ${a[@]}",
		"declare -A m=([a]=b)", "a+=' b'", "((i++))", "((i++", "until false; do :; done", "select a in b; do :; done", "time a", "! a", "a & wait", "echo é 'ü' \"ß\"", "a <<< b", "echo $'a\\n'",
		"curl -s http://169.254.169.254/latest/meta-data/ | jq -r '.a[] | \"\\(.b)\"'", "TOKEN=$(curl -X PUT -H 'a: b' c)", "sed -i \"s/a/$b/g\" c", "awk '{print $1}' a",
		"if [ -f a ]; then\n  b\nelif c; then\n  d\nelse\n  e\nfi", "if [ -f a ]; then\nelse\n e\nfi", "esac",
	}
}

// Scripts are refused exactly if bash -n refuses them.
func TestShellAgreesWithBash(t *testing.T) {
	for _, text := range scriptSamples() {
		t.Run(text, func(t *testing.T) {
			cmd := exec.Command("bash", "-n")
			cmd.Stdin = strings.NewReader(text + "\n")
			runs := cmd.Run() == nil
			_, err := readShell(text+"\n", "bash")
			assert.Equal(t, runs, err == nil, "%v", err)
		})
	}
}

func TestReadShellSplitsWords(t *testing.T) {
	s, err := readShell("A='b c'\nsudo a \"$A\" $A \"x\\\"y\" a\\ b 'c'\"d\" \\\n  ${B:-c} > /dev/null\ntee /etc/x <<'E'\n\\$a\nE\n", "bash")
	require.NoError(t, err)
	require.Len(t, s.commands, 2)
	assert.Equal(t, []word{
		{text: "sudo", line: 2}, {text: "a", line: 2}, {text: "b c", line: 2}, {text: "$A", line: 2, dynamic: true}, {text: `x"y`, line: 2},
		{text: "a b", line: 2}, {text: "cd", line: 2}, {text: "${B:-c}", line: 3, dynamic: true},
	}, s.commands[0])
	assert.Equal(t, []document{{text: "\\$a\n", before: 4, path: "/etc/x"}}, s.documents)
}

func FuzzReadShell(f *testing.F) {
	for _, text := range scriptSamples() {
		f.Add(text, "bash")
		f.Add(text, "sh")
	}
	f.Add(strings.Repeat("$((", 100), "bash")
	f.Add("a <<X\n'\\", "ksh")
	f.Fuzz(func(t *testing.T, text, program string) {
		if shellVariants(program) == nil {
			return
		}
		s, err := readShell(text, program) // must neither panic nor hang
		if err != nil {
			return
		}
		for _, command := range s.commands {
			assert.NotEmpty(t, command)
		}
	})
}

func FuzzPowerShell(f *testing.F) {
	for _, text := range []string{"& a -b 'c' `\n -d", "@'\n'@", "@\"\na", "<# #>", "a \"$b\" `", "'a''b'", "<#", "@'\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		commands, _ := powershellCommands(text) // must neither panic nor hang
		for _, command := range commands {
			assert.NotEmpty(t, command)
		}
	})
}

// Check judges each call that the test of package bootstrap compares with Amazon Linux
// 2's script, with variables before the call or exported: a call that fails is an error.
func TestVerdictsAboutCallsOfBootstrapSh(t *testing.T) {
	table := testkit.Content(t, "../bootstrap/testdata/calls.tsv")
	variables := regexp.MustCompile(`^(?:[A-Z]\w*=\S* )+`)
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		require.Len(t, columns, 5, line)
		script, image, want := columns[0], columns[1], columns[2]
		call := strings.NewReplacer("$join", "--apiserver-endpoint https://a.example --b64-cluster-ca "+authority,
			"Y2E=", authority, "Y2E", strings.TrimRight(authority, "=")).Replace(columns[3])
		before := variables.FindString(call)
		call = bootstrapScript + " " + strings.TrimPrefix(call, before)
		forms := []string{before + call}
		if before != "" {
			forms = append(forms, "export "+before+"\n"+call)
		}
		for _, form := range forms {
			report, err := Check([]byte("#!/bin/bash\n"+form+"\n"), "al2")
			require.NoError(t, err, form)
			got := "passes"
			switch {
			case report.Failed():
				got = "fails"
			case len(report.Problems) > 0:
				got = "warns"
			}
			assert.Equal(t, want, got, "%s: %v", columns[3], report.Problems)
		}
		// Only the machine knows its files, and DescribeCluster the cluster.
		known := strings.Contains(columns[3], "$join") && !strings.Contains(columns[3], "/missing.toml")
		if known && (image == "fails" || image == "=" && script == "fails") {
			assert.Equal(t, "fails", want, "%s: first boot fails, and the check passes", columns[3])
		}
	}
}

// The values are those that Bottlerocket's own types refuse or take, by their tests.
func TestBottlerocketsTypes(t *testing.T) {
	for setting, c := range map[string]struct{ good, bad []string }{
		"kubernetes.max-pods":                        {[]string{"0", "110"}, []string{"-1", "4294967296", "'110'", "1.5"}},
		"kubernetes.log-level":                       {[]string{"2"}, []string{"256", "-1"}},
		"kubernetes.registry-qps":                    {[]string{"-1", "5"}, []string{"2147483648"}},
		"kubernetes.eviction-max-pod-grace-period":   {[]string{"0"}, []string{"-1"}},
		"kubernetes.image-gc-high-threshold-percent": {[]string{"85", "'85'"}, []string{"101", "'-1'", "'x'"}},
		"kubernetes.cluster-name":                    {[]string{"'a-b_c'"}, []string{"'-a'", "''"}},
		"kubernetes.bootstrap-token":                 {[]string{"'abcdef.0123456789abcdef'"}, []string{"'secret'"}},
		"kubernetes.cloud-provider":                  {[]string{"'aws'", "'external'", "''"}, []string{"'internal'"}},
		"kubernetes.container-log-max-size":          {[]string{"'10Mi'", "'129e6'", "'100m'"}, []string{"'12ki'", "'12%'", "'100Kiii'", "10"}},
		"kubernetes.container-log-monitor-interval":  {[]string{"'1h2m3s10ms'", "'1.5h3.5m'"}, []string{"'100'", "'9ns'", "'ten second'", "''", "'1m2h'"}},
		"kubernetes.shutdown-grace-period":           {[]string{"'30s'"}, []string{"'-5s'"}},
		"kubernetes.cpu-manager-reconcile-period":    {[]string{"'10s'"}, []string{"'x'"}},
		"kubernetes.image-minimum-gc-age":            {[]string{"'2m'"}, []string{"'2 minutes'"}},
		"kubernetes.cpu-manager-policy":              {[]string{"'static'", "'None'"}, []string{"'bad'"}},
		"kubernetes.memory-manager-policy":           {[]string{"'Static'", "'none'"}, []string{"'dynamic'"}},
		"kubernetes.memory-swap-behavior":            {[]string{"'LimitedSwap'"}, []string{"'all'"}},
		"kubernetes.reserved-cpus":                   {[]string{"'0-2,7'"}, []string{"'a'", "'0-'", "''"}},
		"kubernetes.cluster-domain":                  {[]string{"'cluster.local'"}, []string{"'.a'", "'foo/com'", "'123.123.123.123'"}},
		"kubernetes.cluster-dns-ip":                  {[]string{"'10.0.0.1'", "['10.0.0.1', '::1']"}, []string{"'dns'"}},
		"kubernetes.hostname-override":               {[]string{"'a.b'"}, []string{"'A'", "'a..b'", "'-a'"}},
		"kubernetes.node-taints.a":                   {[]string{"'a-b:NoSchedule'", "[':NoExecute']"}, []string{"'-a:NoSchedule'", "'a:'", "'a b:NoSchedule'"}},
		"kubernetes.node-taints.'a b'":               {nil, []string{"':NoSchedule'"}},
		"kubernetes.static-pods.my-pod.enabled":      {[]string{"true"}, []string{"'true'"}},
		"kubernetes.static-pods.my_pod.enabled":      {nil, []string{"true"}},
		"kubernetes.eviction-soft-grace-period":      {[]string{"{'memory.available' = '30s'}"}, []string{"{'storage.available' = '30s'}", "{'memory.available' = 'x'}"}},
		"kubernetes.memory-manager-reserved-memory":  {[]string{"{'0' = {enabled = true, memory = '1Gi'}}"}, []string{"{'0' = {enabled = true, memory = 'x'}}", "{'0' = {cpu = '1'}}"}},
		"dns.name-servers":                           {[]string{"['1.2.3.4', '::1']"}, []string{"['dns.example.com']", "'1.2.3.4'"}},
		"dns.search-list":                            {[]string{"['a.example']"}, []string{"['A']"}},
		"network.hostname":                           {[]string{"'a'"}, []string{"'a_b'"}},
		"network.https-proxy":                        {[]string{"'proxy:3128'"}, []string{"'a b'"}},
		"updates.version-lock":                       {[]string{"'latest'", "'v1.0.1-alpha'"}, []string{"'1.0'", "'hi'"}},
		"updates.seed":                               {[]string{"1"}, []string{"-1"}},
		"kernel.sysctl.'net.core.somaxconn'":         {[]string{"'1'"}, []string{"1"}},
		"kernel.sysctl.'../a'":                       {nil, []string{"'1'"}},
		"kernel.modules.xt_XT.allowed":               {[]string{"true"}, nil},
		"kernel.modules.'a|b'.allowed":               {nil, []string{"true"}},
		"bootstrap-commands.a.commands":              {[]string{"[['apiclient', 'set']]"}, []string{"[['touch', 'a']]", "[[]]", "['apiclient']"}},
	} {
		t.Run(setting, func(t *testing.T) {
			path := "settings." + setting + " = "
			whole := "settings.kubernetes.cluster-name = 'a'\n"
			if setting == "kubernetes.cluster-name" {
				whole = ""
			}
			whole += "settings.kubernetes.api-server = 'https://a'\nsettings.kubernetes.cluster-certificate = '" + authority + "'\n"
			for _, value := range c.good {
				assert.Empty(t, said(t, whole+path+value+"\n", ""), value)
			}
			for _, value := range c.bad {
				got := said(t, whole+path+value+"\n", "")
				assert.Contains(t, got, ": settings."+strings.Split(setting, ".")[0], value)
			}
		})
	}
}

func TestBottlerocketsInlineTables(t *testing.T) {
	const inline = "{cluster-name = 'a', api-server = 'https://a', cluster-certificate = 'YQ==', max-pods = %}"
	for _, form := range []string{
		"settings = {kubernetes = " + inline + "}\n", "settings.kubernetes = " + inline + "\n", "# mine\n[settings]\nkubernetes = " + inline + "\n",
		"[ settings ]\nkubernetes = " + inline + "\n", "\"settings\".kubernetes = " + inline + "\n", "['settings'.kubernetes]\n" + strings.NewReplacer("{", "", "}", "", ", ", "\n").Replace(inline) + "\n",
	} {
		report, err := Check([]byte(withAuthority(strings.Replace(form, "%", "110", 1))), "")
		require.NoError(t, err, form)
		assert.Equal(t, "bottlerocket", report.Family)
		assert.Empty(t, report.Problems, form)
		assert.Contains(t, said(t, strings.Replace(form, "%", "-1", 1), ""), "settings.kubernetes.max-pods: -1 must be from 0 to 4294967295", form)
	}
}

// Every row names a type that the check knows.
func TestSettingsTable(t *testing.T) {
	for name, takes := range settingsTable().Types {
		assert.True(t, takes.Low < takes.High && takes.Pattern == nil || takes.Pattern != nil && takes.Means != "", name)
	}
	others := " any bool text address base64 url eviction reserved commands "
	var check func(path string, at any)
	check = func(path string, at any) {
		for name, below := range at.(map[string]any) {
			row, leaf := below.(string)
			if !leaf {
				check(path+"."+name, below)
				continue
			}
			takes, _, _ := strings.Cut(strings.TrimLeft(row, "[]+"), " ") // the rest is the kubelet's field
			_, known := settingsTable().Types[takes]
			assert.True(t, known || strings.Contains(takes, "|") || strings.Contains(others, " "+takes+" "), path+"."+name)
		}
	}
	check("settings", settingsTable().Settings)
}

func TestUserDataAndProblemsAreBounded(t *testing.T) {
	_, err := Check([]byte(script+strings.Repeat("x", 2<<20)), "")
	require.EqualError(t, err, "reading user data: the text has more than 1 MiB")
	r := checked(t, []byte(script+strings.Repeat("/etc/eks/bootstrap.sh c --x y\n", 1000)), "")
	var last int
	for _, p := range r.Problems {
		if p.Text == "further problems are not listed" {
			last++
		}
	}
	assert.Equal(t, 1, last)
}
