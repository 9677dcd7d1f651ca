package userdata

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

const (
	byteOrderMark = "\ufeff"
	// maxShells bounds how deep calls of a shell with -c are followed.
	maxShells     = 5
	shebangAdvice = "a script begins with #! and the program that runs it, such as #!/bin/bash"
)

// file is a file that user data writes.
type file struct {
	text string
	// at is where the text is in the user data.
	at position
	// seen says that the file was checked.
	seen bool
}

// executable reports whether the kernel can run a text as a program: cloud-init
// runs scripts without a shell, so that the first two bytes must be #!.
func (c *checker) executable(text string) bool {
	switch {
	case strings.HasPrefix(text, "#!"):
		return true
	case strings.HasPrefix(text, byteOrderMark):
		c.fail(1, "", "a byte-order mark precedes #!, so the script cannot run; save the file as UTF-8 without a byte-order mark")
	case isScript(text):
		c.fail(1, "", "blank lines or spaces precede #!, so the script cannot run; #! must be the first two bytes")
	default:
		c.fail(1, "", "%s", shebangAdvice)
	}
	return false
}

// script checks a script that begins with #!. It returns the number of calls of
// bootstrap.sh and nodeadm.
func (c *checker) script(text string) int {
	if strings.Contains(text, "\r\n") {
		c.warn(1, "", "the lines end with CR LF; cloud-init corrects that, other programs that run the script do not")
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	program := interpreter(text)
	if program != "" && shellVariants(program) == nil { // Python, Perl
		return mentions(text)
	}
	return c.shell(text, program)
}

// mentions is 1 for a text that cannot be parsed and may join the machine.
func mentions(text string) int {
	if strings.Contains(text, path.Base(bootstrapScript)) || strings.Contains(text, "nodeadm") {
		return 1
	}
	return 0
}

// shell checks a shell script. It returns the number of calls, as script does.
func (c *checker) shell(text, program string) int {
	s, err := readShell(text, program)
	if err != nil {
		var at shellError
		errors.As(err, &at)
		c.fail(at.line, "", "the shell cannot run the script: %v", err)
		return mentions(text)
	}
	for _, w := range s.warnings {
		c.warn(w.line, "", "%s", w.text)
	}
	var configs []nodeconfig.Part
	for _, d := range s.documents {
		if isNodeConfig(d.text) && !d.dynamic {
			configs = append(configs, nodeconfig.Part{Text: d.text, Before: d.before})
		}
		if d.path != "" && !d.dynamic {
			c.write(d.path, d.text, c.at.below(d.before))
		}
	}
	if c.variables == nil {
		c.variables = map[string]string{}
	}
	for _, name := range s.exported {
		c.variables[name] = s.values[name]
	}
	called := 0
	for _, command := range s.commands {
		c.continued(command)
		if joinsOtherwise(command) {
			called++
			// Configuration may also come from other sources; the folder of parts is
			// one of them.
			c.nodeConfigs(configs, len(s.documents) == 1 && !strings.Contains(text, partsFolder))
			configs = nil
			continue
		}
		called += c.command(command)
	}
	return called
}

// continued reports a command that continues a line whose backslash has no
// effect.
func (c *checker) continued(command []word) {
	for _, w := range command {
		if w.blank {
			c.fail(w.line, "", `a space follows the \ at the end of the line, so the command ends here; remove the space`)
			return
		}
	}
	if strings.HasPrefix(command[0].text, "--") && len(command[0].text) > 2 {
		c.fail(command[0].line, "", `%s is run as a command of its own; the line before must end in \`, command[0].text)
	}
}

// write notes a file that user data writes.
func (c *checker) write(name, text string, at position) {
	if c.files == nil {
		c.files = map[string]*file{}
	}
	c.files[name] = &file{text: text, at: at}
}

// run checks a file that user data writes and runs.
func (c *checker) run(f *file) int {
	if f.seen {
		return 0
	}
	f.seen = true
	called := 0
	c.in(f.at, func() { called = c.script(f.text) })
	return called
}

// command checks a command. It returns the number of calls of bootstrap.sh.
func (c *checker) command(command []word) int {
	if script, shell := inline(command); shell != "" && c.depth < maxShells {
		c.depth++
		defer func() { c.depth-- }()
		called := 0
		c.within(script.line-1, func() { called = c.shell(script.text, shell) })
		return called
	}
	i := c.program(command)
	if f := c.files[command[i].text]; f != nil {
		return c.run(f)
	}
	if !isBootstrap(command[i]) {
		return 0
	}
	c.bootstrap(command[i].line, command[:i], command[i+1:])
	return 1
}

// joinsOtherwise says whether a command has nodeadm join the machine, with a
// NodeConfig of its own.
func joinsOtherwise(command []word) bool {
	i := slices.IndexFunc(command, func(w word) bool { return path.Base(w.text) == "nodeadm" })
	return i >= 0 && i+1 < len(command) && command[i+1].text == "init" && (i == 0 || runsOthers(command[0].text))
}

var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`) })

// runsOthers says whether a command's first word runs the words after it.
func runsOthers(first string) bool {
	known := []string{"sudo", "exec", "env", "nohup", "command", "source", ".", "timeout", "nice", "ionice", "stdbuf", "setsid", "flock", "cloud-init-per"}
	return isShell(first) || slices.Contains(known, path.Base(first)) || assignment().MatchString(first)
}

func isShell(name string) bool {
	return slices.Contains([]string{"bash", "sh", "dash", "ash", "ksh"}, path.Base(name))
}

func isBootstrap(w word) bool { return path.Base(w.text) == path.Base(bootstrapScript) }

// program is the index of the program that a command runs: the first word, or
// the one that sudo and the like run.
func (c *checker) program(command []word) int {
	if !runsOthers(command[0].text) {
		return 0
	}
	return max(0, slices.IndexFunc(command, func(w word) bool { return isBootstrap(w) || c.files[w.text] != nil }))
}

var commandFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-[a-z]*c$`) })

// inline is the script that a command such as bash -c runs.
func inline(command []word) (script word, shell string) {
	i := slices.IndexFunc(command, func(w word) bool { return isShell(w.text) })
	if i < 0 || i > 0 && !runsOthers(command[0].text) {
		return word{}, ""
	}
	for n := i + 1; n+1 < len(command) && strings.HasPrefix(command[n].text, "-"); n++ {
		if commandFlag().MatchString(command[n].text) && !command[n+1].dynamic {
			return command[n+1], path.Base(command[i].text)
		}
	}
	return word{}, ""
}
