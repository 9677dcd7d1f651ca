package userdata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// powershellCommands takes a script apart into commands, as far as user data
// needs it: quotes, continued lines and comments. Open is the line of a quote
// that nothing closes; 0 for none.
func powershellCommands(script string) (all [][]word, open int) {
	var command []word
	var current *word
	line := 1
	begin := func(quoted bool) {
		if current == nil {
			current = &word{line: line, quoted: quoted}
		}
	}
	put := func(ch byte) {
		begin(false)
		current.bytes = append(current.bytes, ch)
	}
	endWord := func() {
		if current != nil {
			command = append(command, current.whole())
		}
		current = nil
	}
	endCommand := func() {
		endWord()
		if len(command) > 0 {
			all = append(all, command)
		}
		command = nil
	}
	for i := 0; i < len(script); i++ {
		ch := script[i]
		switch {
		case skipped(script[i:]) > 0:
			n := skipped(script[i:])
			if ch == '@' {
				begin(false)
				current.dynamic = true // a here-string
			}
			line += strings.Count(script[i:i+n], "\n")
			i += n - 1
		case ch == '`' && i+1 < len(script):
			i++
			if script[i] == '\r' && i+1 < len(script) {
				i++
			}
			if script[i] == '\n' {
				line++
				endWord()
			} else {
				put(script[i])
				rest := strings.TrimLeft(script[i:], " \t\r")
				current.blank = len(current.bytes) == 1 && strings.IndexByte(" \t", script[i]) >= 0 &&
					strings.HasPrefix(rest, "\n")
			}
		case ch == '\'' || ch == '"':
			begin(true)
			from := line
			if i = powershellQuoted(script, i, current, &line); i >= len(script) {
				open = from
			}
		case ch == '\n' || ch == ';':
			endCommand()
			if ch == '\n' {
				line++
			}
		case ch == ' ' || ch == '\t' || ch == '\r':
			endWord()
		case ch == '#' && current == nil:
			for i+1 < len(script) && script[i+1] != '\n' {
				i++
			}
		case ch == '&' && current == nil:
			put(ch)
			endWord()
		default:
			put(ch)
			current.dynamic = current.dynamic || ch == '$' || ch == '('
		}
	}
	endCommand()
	return all, open
}

// skipped is the length of the here-string or the comment that a text begins
// with; 0 for neither.
func skipped(text string) int {
	if strings.HasPrefix(text, "<#") {
		if end := strings.Index(text, "#>"); end > 0 {
			return end + 2
		}
		return len(text)
	}
	if !hereString().MatchString(text[:min(len(text), 4)]) {
		return 0
	}
	if end := strings.Index(text, "\n"+text[1:2]+"@"); end > 0 {
		return end + 3
	}
	return len(text)
}

var hereString = show.Regexp("^@['\"]\r?\n")

// powershellQuoted reads a text in quotes into a word and says where it ends.
func powershellQuoted(script string, i int, w *word, line *int) int {
	quote := script[i]
	for i++; i < len(script); i++ {
		ch := script[i]
		switch {
		case ch == quote && i+1 < len(script) && script[i+1] == quote:
			i++
		case ch == quote:
			return i
		case ch == '`' && quote == '"' && i+1 < len(script):
			i++
			ch = script[i]
		case ch == '$' && quote == '"':
			w.dynamic = true
		}
		if ch == '\n' {
			*line++
		}
		w.bytes = append(w.bytes, ch)
	}
	return i
}

// unquotedPath reports whether spaces split the script's path into words.
func unquotedPath(command []word) bool {
	i := 0
	if command[0].text == "&" || command[0].text == "." {
		i = 1
	}
	if i+1 >= len(command) || !slices.ContainsFunc(command[i+1:], namesScript) {
		return false
	}
	first, next := command[i], command[i+1]
	return !first.quoted && strings.Contains(first.text, `\`) && !namesScript(first) &&
		!next.quoted && !strings.HasPrefix(next.text, "-")
}

// splatted returns the entries of the hash table that a call takes its parameters from,
// as @NAME; nil if the script does not define the table.
func splatted(before [][]word, call []word) []word {
	at := slices.IndexFunc(call, func(w word) bool { return strings.HasPrefix(w.text, "@") && len(w.text) > 1 })
	if at < 0 {
		return nil
	}
	var all []word
	open := false
	for _, command := range before {
		words := command
		name, _, _ := strings.Cut(words[0].text, "=")
		if strings.EqualFold(name, "$"+call[at].text[1:]) {
			begin := slices.IndexFunc(words, func(w word) bool { return strings.Contains(w.text, "@{") })
			if open = begin >= 0; !open {
				continue
			}
			all = nil
			_, rest, _ := strings.Cut(words[begin].text, "@{")
			words = slices.Clone(words[begin:])
			words[0].text = rest
		}
		if !open {
			continue
		}
		all = append(all, entry(words)...)
		open = !strings.HasSuffix(words[len(words)-1].text, "}")
	}
	return all
}

// entry makes a parameter and its value of the words NAME = VALUE.
func entry(words []word) []word {
	var name, value word
	found := false
	for _, w := range words {
		before, after, equals := strings.Cut(w.text, "=")
		switch {
		case found && value.text == "":
			value = w
		case !found && equals && !w.quoted:
			found = true
			if before != "" {
				name = word{text: before, line: w.line}
			}
			value = word{text: after, line: w.line, dynamic: w.dynamic}
		case !found && w.text != "":
			name = w
		}
	}
	if !found {
		return nil
	}
	value.text = strings.TrimSuffix(value.text, "}") // also '…'}
	return []word{{text: "-" + name.text, line: name.line}, value}
}

// kubeletArguments checks arguments of the kubelet, which ends at once when one
// of them is wrong. The caller leaves out what a shell computes. $ and ` are text here,
// because nothing expands them later.
func (c *checker) kubeletArguments(line int, field string, arguments []string) {
	for a := range kubelet.Arguments(arguments) {
		f := a.Flag
		switch {
		case c.full():
			return
		case !strings.HasPrefix(a.Name, "-"):
			c.fail(line, field, "%q is not a flag of the kubelet; a flag begins with --", nodeconfig.Printable(a.Text))
			continue
		case f.Name == "":
			c.fail(line, field, "unknown flag %s of the kubelet; %s", nodeconfig.Printable(a.Name), nearestFlag(a.Name))
			continue
		case f.Last != "":
			c.warn(line, field, "%s: Kubernetes 1.%s was the last with this flag; newer kubelets do not start with it",
				a.Name, f.Last)
		}
		if a.Missing {
			c.fail(line, field, "%s: the value is missing", a.Name)
			continue
		}
		if f.Name == "max-pods" {
			c.limit(line, field, a.Value)
		}
		for _, said := range flagProblems(a) {
			c.fail(line, field, "%s: %s", a.Name, said)
		}
	}
}

// limit notes a limit of the node's pods. The kubelet's flags win over its
// configuration.
func (c *checker) limit(line int, field, value string) {
	if n := len(c.maxPods); n > 0 && c.maxPods[n-1] != value {
		c.warn(line, field, "maxPods is %s here and %s elsewhere", value, c.maxPods[n-1])
	}
	c.maxPods = append(c.maxPods, value)
}

func nearestFlag(name string) string {
	best := show.Nearest(kubelet.FlagName(name), sortedNames(kubelet.Flags()))
	if best == "" {
		return "see kubelet --help"
	}
	return "did you mean --" + best + "?"
}

// flagProblems says what is wrong with the value of one flag.
func flagProblems(a kubelet.Argument) []string {
	var said []string
	switch a.Flag.Name {
	case "node-labels":
		for pair := range strings.SplitSeq(a.Value, ",") {
			key, v, found := strings.Cut(pair, "=")
			switch {
			case pair == "":
			case !found:
				said = append(said, strconv.Quote(pair)+" must be key=value")
			default:
				said = append(said, labelProblems(key, v)...)
			}
		}
	case taintsFlag:
		for t := range strings.SplitSeq(a.Value, ",") {
			if _, err := kubelet.ParseTaint(t); err != nil && t != "" {
				said = append(said, err.Error())
			}
		}
	default:
		return a.Flag.ValueProblems(a.Value)
	}
	return said
}

// labelProblems says what is wrong with a label that a node gives itself.
func labelProblems(name, value string) []string {
	var said []string
	add := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	if !kubelet.LabelName().MatchString(name) {
		add("%q is no label's name", name)
	}
	if !kubelet.LabelValue().MatchString(value) {
		add("%q is no value for %s: up to 63 letters, digits, -, _ and .", value, name)
	}
	if reserved(name) {
		add("%q is Kubernetes' own, and no node may give it to itself; put it there with kubectl label", name)
	}
	return said
}

// reserved says whether the kubelet and the API server refuse a label that a
// node gives itself.
func reserved(name string) bool {
	prefix, _, found := strings.Cut(name, "/")
	below := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	return found && (below("kubernetes.io") || below("k8s.io")) && !slices.Contains(vocabulary().Labels, name) &&
		!slices.ContainsFunc(vocabulary().LabelPrefixes, below)
}

// taintsFlag is the kubelet's flag whose last value replaces all taints.
const taintsFlag = "register-with-taints"

// tainted notes the taints of a kubelet with these flags and the taints of its
// configuration, and warns of those that a flag replaces.
func (c *checker) tainted(flags, configured []string, warn func(said string)) {
	taints := strings.Join(configured, ",")
	for a := range kubelet.Arguments(flags) {
		if a.Flag.Name != taintsFlag {
			continue
		}
		if taints != "" && taints != a.Value {
			warn(fmt.Sprintf("%s replaces the taints %s; list all taints in one flag", a.Text, taints))
		}
		taints = a.Value
	}
	c.taints = append(c.taints, strings.Split(taints, ",")...)
}
