package userdata

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
