package userdata

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func filled(text string, size int) string { return strings.Repeat(text, max(1, size/len(text))) }

// nested is an opening text so many times, a core, and as many closing texts.
func nested(open, core, end string, times int) string {
	return strings.Repeat(open, times) + core + strings.Repeat(end, times)
}

// aliases are YAML anchors that refer to one another, each so many times to the
// one before.
func aliases(depth, wide int, format string) string {
	var b strings.Builder
	b.WriteString("a0: &a0 {x: y}\n")
	for i := 1; i <= depth; i++ {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(format, i-1), wide), ", ")
		fmt.Fprintf(&b, "a%d: &a%d {%s}\n", i, i, list)
	}
	return b.String()
}

// slowShells are scripts that are slow to parse or to follow.
func slowShells() map[string]string {
	call := "\n/etc/eks/bootstrap.sh c\n"
	const half, size = 30_000, 60_000
	return map[string]string{
		"subshells":              nested("(", "a", ")", 3900) + call,
		"open subshells":         strings.Repeat("(", 3900) + call,
		"substitutions":          nested("$(", "a", ")", 3900) + call,
		"arithmetic":             nested("$((", "1", "))", 1900) + call,
		"open arithmetic":        strings.Repeat("$((", 1900) + call,
		"expansions":             nested("${a:-", "a", "}", 3900) + call,
		"open expansions":        strings.Repeat("${a:-", 3900) + call,
		"quoted substitutions":   nested("\"$(", "a", ")\"", 3900) + call,
		"backquotes":             nested("`", "a", "`", 1900) + call,
		"escaped backquotes":     "`" + strings.Repeat("\\`", 3000) + call,
		"braces":                 nested("{ ", "a;", " };", 3900) + call,
		"ifs":                    nested("if a; then ", "a", "; fi", 3500) + call,
		"whiles":                 nested("while a; do ", "a", "; done", 2800) + call,
		"cases":                  nested("case a in a) ", "a", ";; esac", 2500) + call,
		"negations":              strings.Repeat("! ", half) + "a" + call,
		"tests":                  "[[ " + strings.Repeat("! ", half) + "a ]]" + call,
		"tests in parentheses":   "[[ " + nested("( ", "a", " )", 3900) + " ]]" + call,
		"signs":                  "$((" + strings.Repeat("-", half) + "1))" + call,
		"ternaries":              "$((" + strings.Repeat("1?", 9000) + "1" + strings.Repeat(":1", 9000) + "))" + call,
		"pipes":                  strings.Repeat("a | ", size/4) + "a" + call,
		"conditions":             strings.Repeat("a && ", size/5) + "a" + call,
		"times":                  strings.Repeat("time ", size/5) + "a" + call,
		"coprocesses":            strings.Repeat("coproc ", size/7) + "a" + call,
		"functions":              strings.Repeat("f() ", 3900) + "a" + call,
		"function words":         strings.Repeat("function f ", 3900) + "a" + call,
		"here-documents":         filled("a <<X\nb\nX\n", size) + call,
		"open here-documents":    filled("a <<X\n", size) + call,
		"here-documents in line": "a" + filled(" <<X", size/2) + "\n" + filled("b\nX\n", size/2) + call,
		"long here-documents":    "a" + strings.Repeat(" <<X", 2000) + "\n" + filled("b\n", half) + "X\n" + call,
		"nested here-documents":  filled("a <<X $(b <<Y\n", half) + call,
		"here-strings":           filled("a <<<b ", size) + call,
		"open quotes":            filled("'a'\"b\"", size) + "'" + call,
		"quotes":                 filled("'a'\"b\"", size) + call,
		"assignments":            filled("A=$A$A\n", size) + call,
		"doubling variables":     doubling(60) + "/etc/eks/bootstrap.sh \"$A59\"\n",
		"a long variable":        "A='" + strings.Repeat("x", half) + "'\n" + filled("b \"$A$A$A$A\"\n", half) + call,
		"a long word repeated":   "A='" + strings.Repeat("x", half) + "'\n/etc/eks/bootstrap.sh c --kubelet-extra-args \"" + filled("$A", half) + "\"\n",
		"comments":               filled("#\n", size) + call,
		"continued lines":        filled("a \\\n", size) + call,
		"escaped spaces":         "a " + filled("\\ ", half) + strings.Repeat(" ", half) + call,
		"spaces after backslash": filled("a \\ ", half) + strings.Repeat(" ", half) + "\nb" + call,
		"shells in shells":       filled("bash -c 'bash -c a'\n", size) + call,
		"arrays":                 "a=(" + filled("b ", size) + ")" + call,
		"extended globs":         strings.Repeat("@(", 3900) + call,
		"processes":              nested("<(", "a", ")", 3900) + call,
		"calls":                  filled("/etc/eks/bootstrap.sh c --kubelet-extra-args '--nod a'\n", size),
		"flags":                  "/etc/eks/bootstrap.sh c --kubelet-extra-args '" + filled("--x ", size) + "'\n",
		"own flags":              "/etc/eks/bootstrap.sh c " + filled("--x ", size) + "\n",
		"labels":                 "/etc/eks/bootstrap.sh c --kubelet-extra-args '--node-labels=" + filled("a b=c d,", size) + "'\n",
		"taints":                 "/etc/eks/bootstrap.sh c --kubelet-extra-args '--register-with-taints=" + filled("a b,", size) + "'\n",
		"quotes in flags":        "/etc/eks/bootstrap.sh c --kubelet-extra-args \"" + filled("--v='2' ", size) + "\"\n",
		"NodeConfigs":            filled("cat <<'E' > /etc/eks/nodeadm.d/a.yaml\n"+head+"  x: 1\nE\nnodeadm init\n", size),
		"files":                  filled("cat <<'E' > /a\nbash /a\nE\nbash /a\n", size),
	}
}

// doubling returns variables that each hold the variable before them twice.
func doubling(times int) string {
	var b strings.Builder
	b.WriteString("A0=xxxxxxxxxx\n")
	for i := 1; i < times; i++ {
		fmt.Fprintf(&b, "A%d=\"$A%d$A%d\"\n", i, i-1, i-1)
	}
	return b.String()
}

// slowMIME are messages that are slow to take apart.
func slowMIME() map[string]string {
	const size = 1_000_000
	mail := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n"
	shell := "--X\nContent-Type: text/x-shellscript\n\n#!/bin/bash\n"
	part := "--X\nContent-Type: application/node.eks.aws\n\n"
	one := slowShells()["NodeConfigs"]
	return map[string]string{
		"open":                   mail + filled("--X\n", size),
		"headers":                mail + "--X\n" + filled("A: b\n", size),
		"one header":             mail + "--X\nContent-Type: text/plain" + filled("; a=b", size) + "\n\n",
		"folded":                 mail + "--X\nContent-Type: text/plain;" + filled("\n a=b;", size) + "\n\n",
		"boundary":               "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=" + strings.Repeat("X", size/2) + "\n\n" + filled("--X\n", size/2),
		"encoded words":          "MIME-Version: 1.0\nContent-Type: =?utf-8?b?" + filled("YQ", size) + "?=\n\n",
		"continued parameters":   "MIME-Version: 1.0\nContent-Type: multipart/mixed; " + numbered("boundary*%d=X; ", 50_000) + "\n\n",
		"scripts":                mail + filled(shell+"/etc/eks/bootstrap.sh c --x y\n", size),
		"slow scripts":           mail + strings.Repeat(shell+slowShells()["open here-documents"], 15),
		"slow calls":             mail + strings.Repeat(shell+slowShells()["calls"], 15),
		"slow flags":             mail + strings.Repeat(shell+slowShells()["flags"], 15),
		"slow substitutions":     mail + strings.Repeat(shell+slowShells()["substitutions"], 15),
		"slow subshells":         mail + filled(shell+slowShells()["open subshells"], size),
		"slow quotes":            mail + strings.Repeat(shell+slowShells()["quotes in flags"], 15),
		"slow NodeConfigs":       mail + strings.Repeat(shell+one, 15),
		"NodeConfigs":            mail + filled(part+head+"  cluster: {name: a}\n", size),
		"flags of NodeConfigs":   mail + strings.Repeat(part+head+"  kubelet: {flags: ["+filled("--x,", 60_000)+"]}\n", 15),
		"flags that are known":   mail + strings.Repeat(part+head+"  kubelet: {flags: ["+filled("--v=2,", 60_000)+"]}\n", 15),
		"merged NodeConfigs":     mail + strings.Repeat(part+head+"  kubelet: {config: {kubeReserved: {"+numbered("a%d: b, ", 6000)+"}}}\n", 10),
		"TOML":                   mail + strings.Repeat(part+head+"  containerd: {config: '"+nested("a=[", "1", "]", 8000)+"'}\n", 15),
		"merged TOML":            mail + strings.Repeat(part+head+"  containerd: {config: '"+strings.ReplaceAll(numbered("a%d=1\n", 6000), "\n", "\n\n")+"'}\n", 10),
		"expressions":            mail + strings.Repeat(part+head+"  kubelet: {maxPodsExpression: '"+nested("(", "1", ")", 2000)+"'}\n", 40),
		"archives":               mail + strings.Repeat("--X\nContent-Type: text/cloud-config-archive\n\n"+filled("- a\n", 200_000), 5),
		"cloud-configs":          mail + strings.Repeat("--X\nContent-Type: text/cloud-config\n\n"+filled("aruncmd: a\n", 200_000), 5),
		"templates":              mail + filled("--X\nContent-Type: text/jinja2\n\n## template: jinja\n", size),
		"templates in templates": "## template: jinja\n" + filled("## template: jinja\n", size),
		"archives in archives":   "#cloud-config-archive\n" + archiveIn(12),
		"certificates":           script + "/etc/eks/bootstrap.sh c --b64-cluster-ca " + base64.StdEncoding.EncodeToString([]byte(filled("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n", 40_000))) + "\n",
		"open certificates":      script + "/etc/eks/bootstrap.sh c --b64-cluster-ca " + base64.StdEncoding.EncodeToString([]byte(filled("-----BEGIN CERTIFICATE-----\n", 40_000))) + "\n",
	}
}

func numbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// archiveIn is a cloud-config-archive in an archive, packed to fit.
func archiveIn(depth int) string {
	text := "- a\n"
	for range depth {
		text = "- |\n  #cloud-config-archive\n  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
		text += text
	}
	return text
}

// slowYAML are documents that are slow to read.
func slowYAML() map[string]string {
	const size = 250_000
	class := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\n"
	return map[string]string{
		"aliases":                "#cloud-config\n" + aliases(12, 20, "x: *a%d, "),
		"aliases in the kubelet": class + aliases(9, 9, "x: *a%d, ") + "spec: {kubelet: {evictionHard: {" + numbered("a%d: *a9, ", 9000) + "}}}\n",
		"lists of aliases":       class + aliasLists(9, 9) + "spec: {kubelet: {evictionHard: {" + numbered("a%d: *a9, ", 9000) + "}}}\n",
		"merges in the kubelet":  class + aliases(30, 2, "<<: *a%d, ") + "spec: {kubelet: {evictionHard: {<<: *a30}}}\n",
		"merges in the logging":  head + "  kubelet: {config: {" + strings.ReplaceAll(strings.ReplaceAll(aliases(25, 2, "<<: *a%d, "), "\n", ", "), "x: y", "verbosity: 2") + "logging: {<<: *a25}}}\n",
		"merges":                 head + aliases(30, 2, "<<: *a%d, "),
		"aliased NodeConfig":     head + "  kubelet: {config: {" + strings.ReplaceAll(aliases(12, 9, "x: *a%d, "), "\n", ", ") + "}}\n",
		"an alias to itself":     class + "spec: &a {kubelet: {evictionHard: *a}, userData: *a}\n",
		"a loop":                 "#cloud-config\na: &a [*a]\nwrite_files: *a\nruncmd: *a\n",
		"brackets":               "#cloud-config\na: " + nested("[", "", "]", 9000) + "\n",
		"open brackets":          "#cloud-config\na: " + filled("[", size) + "\n",
		"open braces":            head + "  a: " + filled("{", size) + "\n",
		"sequences":              "#cloud-config\na:\n" + strings.Repeat("- ", 9000) + "a\n",
		"names":                  "#cloud-config\n" + numbered("a%d: 1\n", 25_000),
		"names of a class":       class + "spec: {" + numbered("subnetselectorterm%d: 1, ", 9000) + "}\n",
		"long names of a class":  class + "spec: {" + strings.Repeat("x", size/2) + ": 1, subnetSelectorTerms: 1}\n",
		"fields of a class":      class + "spec: {kubelet: {" + numbered("maxPod%d: 1, ", 15_000) + "}}\n",
		"a long field":           class + "spec: {kubelet: {" + strings.Repeat("x", size/2) + ": 1}}\n",
		"fields of the kubelet":  head + "  kubelet: {config: {" + numbered("maxPod%d: 1, ", 15_000) + "}}\n",
		"documents":              filled("---\nkind: EC2NodeClass\n", size),
		"user data in classes":   filled("---\nkind: EC2NodeClass\nspec: {amiFamily: Custom, userData: \"#!/bin/bash\\n/etc/eks/bootstrap.sh c\"}\n", size),
		"duplicates":             "#cloud-config\n" + filled("a: 1\n", size),
		"anchors":                "#cloud-config\n" + numbered("a%d: &a%d 1\n", 15_000),
		"files":                  "#cloud-config\nwrite_files:\n" + numbered("- {path: /a%d, content: b}\n", 9000) + "runcmd:\n" + numbered("- [/a%d]\n", 5000),
		"commands":               "#cloud-config\nruncmd:\n" + filled("- /etc/eks/bootstrap.sh c --x y\n", size),
		"comments":               filled("# a\n", size) + head,
		"many line breaks":       "#cloud-config\na: \"" + filled("\\n", size) + "\"\n",
		"packed file":            "#cloud-config\nwrite_files:\n- {path: /a, encoding: gz+b64, content: " + zipped(filled("(", 1_000_000)) + "}\nruncmd: [/a]\n",
		"packed files":           "#cloud-config\nwrite_files:\n" + strings.Repeat("- {path: /a, encoding: gz+b64, content: "+zipped(filled("a\n", 1_000_000))+"}\n", 150) + "runcmd: [/a]\n",
		"eksctl":                 "kind: ClusterConfig\nnodeGroups:\n" + filled("- {ami: ami-0123456789abcdef0, amiFamily: AmazonLinux2}\n", size),
		"eksctl's scripts":       "kind: ClusterConfig\nnodeGroups:\n" + filled("- {overrideBootstrapCommand: \"#!/bin/bash\\n/etc/eks/bootstrap.sh c --x y\"}\n", size),
	}
}

func aliasLists(depth, wide int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i <= depth; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), wide), ", "))
	}
	return b.String()
}

func zipped(text string) string {
	return base64.StdEncoding.EncodeToString(testkit.Gzip(text))
}

// slowOthers are texts for Bottlerocket and Windows that are slow to read.
func slowOthers() map[string]string {
	const size = 1_000_000
	powershell := "<powershell>\n"
	call := "& Start-EKSBootstrap.ps1 -EKSClusterName a "
	return map[string]string{
		"arrays in TOML":     "[settings]\na = " + nested("[", "1", "]", 30_000) + "\n",
		"open arrays":        "[settings]\na = " + filled("[", 60_000) + "\n",
		"tables in TOML":     "[settings]\na = " + nested("{a=", "1", "}", 15_000) + "\n",
		"open tables":        "[settings]\na = " + filled("{a=", 60_000) + "\n",
		"long paths":         "[settings]\n" + filled("a.", 60_000) + "a = 1\n",
		"many long paths":    "[settings]\n" + filled(filled("a.", 1000)+"a = 1\n", 60_000),
		"many paths":         "[settings]\n" + numbered(filled("a.", 180)+"b%d = 1\n", 150),
		"many tables":        numbered("[settings.a%d]\n", 4000),
		"lists of tables":    filled("[[settings.a]]\n", 60_000),
		"inline paths":       "[settings]\na = {" + strings.TrimSuffix(numbered("a.b.c.d%d = 1, ", 4000), ", ") + "}\n",
		"names":              "[settings.kubernetes]\n" + numbered("cluster-nam%d = 1\n", 3000),
		"a long name":        "[settings.kubernetes]\n" + strings.Repeat("x", 60_000) + " = 1\n",
		"a long value":       "[settings.kernel]\nlockdown = '" + strings.Repeat("x", 60_000) + "'\n",
		"labels":             "[settings.kubernetes.node-labels]\n" + numbered("\"a %d\" = 'b c'\n", 3500),
		"taints":             "[settings.kubernetes.node-taints]\n" + numbered("a%d = ['b', 'c']\n", 3500),
		"large TOML":         "[settings]\n" + filled("a = 1\n", size),
		"open quotes":        powershell + filled("'a'\"b\"", size) + "'\n",
		"doubled quotes":     powershell + "'" + filled("''", size) + "\n",
		"backquotes":         powershell + filled("` ", size) + "\n</powershell>",
		"continued lines":    powershell + call + filled("`\n", size) + "\n</powershell>",
		"spaces":             powershell + filled("` "+strings.Repeat(" ", 500), size) + "\n</powershell>",
		"here-strings":       powershell + filled("@'\n'@\n", size) + "\n</powershell>",
		"open here-strings":  powershell + filled("@'\n", size) + "\n</powershell>",
		"comments":           powershell + filled("<##>", size) + "\n</powershell>",
		"open comments":      powershell + filled("<#", size) + "\n</powershell>",
		"half comments":      powershell + filled("a<#>", size) + "\n</powershell>",
		"semicolons":         powershell + filled("a;", size) + "\n</powershell>",
		"parameters":         powershell + call + filled("-Foo bar ", size) + "\n</powershell>",
		"a long parameter":   powershell + call + "-" + strings.Repeat("F", size) + "\n</powershell>",
		"twice":              powershell + call + filled("-Endpoint a ", size) + "\n</powershell>",
		"calls":              powershell + filled(call+"-Foo bar\n", size) + "\n</powershell>",
		"calls by parameter": powershell + filled("& a -EKSClusterName ", size) + "\n</powershell>",
		"kubelet's flags":    powershell + call + "-KubeletExtraArgs '" + filled("--x ", size) + "'\n</powershell>",
		"kubelet's labels":   powershell + call + "-KubeletExtraArgs '--node-labels=" + filled("a b=c d,", size) + "'\n</powershell>",
		"flags, by calls":    powershell + filled(call+"-KubeletExtraArgs '--x=1'\n", size) + "\n</powershell>",
		"quoted flags":       powershell + call + "-KubeletExtraArgs '" + filled("\"--v=2\" ", size) + "'\n</powershell>",
		"tags":               filled("<powershell>", size),
		"base64":             filled("QUFB\n", size),
		"gzip in gzip":       zipped(zipped(filled("a", 1_000_000))),
		"nothing":            filled("\n", size),
		"spaces of a header": filled(" ", size),
		"line ends":          "#!/bin/bash\r\n" + filled("\r\n", 60_000),
		"settings":           filled("#\n", size) + "[settings]",
		"kinds":              filled("kind: ", size),
		"versions":           filled("apiVersion: ", size),
	}
}

// timeToCheck is how long a check of any user data may take on a busy machine.
const timeToCheck = 60 * time.Second

// Whatever 1 MiB of user data holds, every family's check ends.
func TestChecksEnd(t *testing.T) {
	texts := map[string]string{}
	for name, text := range slowShells() {
		texts["shell, "+name] = script + text
		if name != "doubling variables" && name != "files" {
			continue
		}
		texts["cloud-config, "+name] = "#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    #!/bin/bash\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\nruncmd: [/a]\n"
	}
	others := slowOthers()
	for kind, all := range map[string]map[string]string{"MIME, ": slowMIME(), "YAML, ": slowYAML(), "": others} {
		for name, text := range all {
			texts[kind+name] = text
		}
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			assert.LessOrEqual(t, len(text), maxText)
			endsInTime(t, text, "")
			if _, other := others[name]; other { // a person may name any family
				for _, family := range IDs() {
					endsInTime(t, text, family)
				}
			}
		})
	}
}

func endsInTime(t *testing.T, text, family string) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := Check([]byte(text), family)
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			assert.Less(t, len(err.Error()), 1000)
		}
	case <-time.After(timeToCheck):
		require.Fail(t, "the check does not end", "family %q", family)
	}
}

// Values that hold one another double in each line: their text is bounded, and
// what follows of a script is still checked.
func TestExpansionIsBounded(t *testing.T) {
	r := checked(t, []byte(script+doubling(60)+"/etc/eks/bootstrap.sh \"$A59\" --kubelet-extra-args '--max-pods=many'\n"), "")
	require.Len(t, r.Problems, 1)
	assert.Equal(t, `62: --kubelet-extra-args: --max-pods: "many" must be a number`, r.Problems[0].String())
	s, err := readShell(doubling(60), "bash")
	require.NoError(t, err)
	assert.LessOrEqual(t, s.expanded, maxExpanded)
}
