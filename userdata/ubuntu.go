package userdata

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// cloudHeader is the first line by which cloud-init knows its configuration.
const cloudHeader = "#cloud-config"

func renderUbuntu(n Node, _ Family) ([]byte, error) {
	if err := n.withoutBootstrapSh(); err != nil {
		return nil, err
	}
	args, err := n.bootstrapArguments()
	if err != nil {
		return nil, err
	}
	type file struct {
		Path        string     `yaml:"path"`
		Content     *yaml.Node `yaml:"content"`
		Permissions string     `yaml:"permissions,omitempty"`
	}
	var document struct {
		Files    []file `yaml:"write_files,omitempty"`
		Commands []any  `yaml:"runcmd"`
	}
	files, commands := n.files()
	for _, f := range files {
		document.Files = append(document.Files, file{Path: f.path, Content: literal(f.text)})
	}
	script := func(name string, texts []string) {
		for i, part := range scripts(texts) {
			f := file{fmt.Sprintf("/var/lib/eksnode/%s-%d.sh", name, i+1), literal(part.Content), "0700"}
			document.Files = append(document.Files, f)
			document.Commands = append(document.Commands, []string{f.Path})
		}
	}
	for _, c := range commands {
		document.Commands = append(document.Commands, strings.Fields(c))
	}
	script("pre", n.Pre)
	document.Commands = append(document.Commands, append([]string{bootstrapScript}, args...))
	script("post", n.Post)
	text, err := strictjson.WriteYAML(document)
	if text = cloudHeader + "\n" + text; err != nil || len(n.Parts) == 0 {
		return []byte(text), err
	}
	return message(append(slices.Clone(n.Parts), Part{ContentType: cloudMedia, Content: text})...), nil
}

func isUbuntu(text string) bool {
	switch mediaOf(strings.TrimPrefix(text, byteOrderMark)) {
	case "", shellMedia:
		return hasPart(text, cloudMedia, archiveMedia, jinjaMedia, includeMedia, onceMedia, boothookMedia) &&
			!hasPart(text, shellMedia)
	default:
		return true
	}
}

// cloudConfig checks a cloud-config and counts the calls of bootstrap.sh. A
// cloud-config that is not readable counts as one call.
func (c *checker) cloudConfig(text, media string) int {
	if media == "" && strings.TrimRight(firstLine(text), " \r") != cloudHeader {
		c.fail(1, "", "the first line must be %s and nothing else", cloudHeader)
	}
	top, called := c.topNode(text, yaml.MappingNode, "a cloud-config is an object with fields such as runcmd")
	if top == nil {
		return called
	}
	c.duplicates(top)
	if files := strictjson.Child(top, "write_files"); files != nil {
		c.writeFiles(files)
	}
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		if !cloudFields().MatchString(key.Value) {
			c.fail(key.Line, key.Value, "unknown field; cloud-init passes over it")
		}
		if key.Value == "runcmd" || key.Value == "bootcmd" {
			called += c.cloudCommands(key.Value, value)
		}
	}
	return called + c.nodeConfigFiles()
}

// cloudCommands checks runcmd or bootcmd. cloud-init makes one script of them.
func (c *checker) cloudCommands(field string, list *yaml.Node) int {
	if list.Kind != yaml.SequenceNode {
		c.fail(list.Line, field, "it must be a list of commands")
		return 0
	}
	var whole strings.Builder
	single := true
	for _, command := range list.Content {
		if command.Kind != yaml.ScalarNode {
			whole.WriteString(":\n")
			continue
		}
		whole.WriteString(command.Value + "\n")
		if _, err := readShell(command.Value, "sh"); err != nil {
			single = false
		}
	}
	if _, err := readShell(whole.String(), "sh"); err == nil && !single { // a command goes on in the next entry
		return mentions(whole.String())
	}
	called := 0
	for _, command := range list.Content {
		called += c.cloudCommand(field, command)
	}
	return called
}

// cloudCommand checks one entry of runcmd: a line for a shell, or a list of
// arguments.
func (c *checker) cloudCommand(field string, n *yaml.Node) int {
	switch n.Kind {
	case yaml.ScalarNode:
		return c.in(c.scalar(n)).shell(n.Value, "sh")
	case yaml.SequenceNode:
		var words []word
		for _, w := range n.Content {
			if w.Kind != yaml.ScalarNode {
				c.fail(w.Line, field, "an argument must be text")
				return 0
			}
			words = append(words, word{text: w.Value, line: w.Line})
		}
		switch {
		case len(words) == 0:
			return 0
		case joinsOtherwise(words):
			return 1
		default:
			return c.command(words)
		}
	default:
		c.fail(n.Line, field, "a command must be text or a list")
		return 0
	}
}

const (
	byteOrderMark = "\ufeff"
	noMark        = "save the file as UTF-8 without a byte-order mark"
	// maxShells bounds how deep calls of a shell with -c are followed.
	maxShells     = 5
	shebangAdvice = "a script begins with #! and the program that runs it, such as #!/bin/bash"
	spaceFollows  = "a space follows the %s at the end of the line, so the command ends here; remove the space"
)

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
		c.fail(1, "", "a byte-order mark precedes #!, so the script cannot run; "+noMark)
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
		at, _ := errors.AsType[shellError](err)
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
			c.write(d.path, d.text, c.at.below(d.before), d.more)
		}
	}
	if c.variables == nil {
		c.variables = map[string]string{}
	}
	for _, name := range s.exported {
		c.variables[name] = s.values[name]
	}
	c.covered(s.commands)
	called := 0
	for _, command := range s.commands {
		c.continued(command, flagLine(), "%s is run as a command of its own; the line before must end in ", `\`)
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

// imageFolder has the images that a machine image brings, such as the pause image.
const imageFolder = "/var/lib/containerd"

// covered reports a command that mounts over imageFolder, in a script that copies nothing
// from there.
func (c *checker) covered(commands [][]word) {
	runs := func(command []word, programs ...string) bool {
		i := slices.IndexFunc(command, func(w word) bool { return slices.Contains(programs, path.Base(w.text)) })
		names := func(w word) bool { return path.Clean(strings.TrimSuffix(w.text, "/.")) == imageFolder }
		return (i == 0 || i > 0 && runsOthers(command[0].text)) && slices.ContainsFunc(command[i+1:], names)
	}
	copies := func(command []word) bool { return runs(command, "cp", "mv", "rsync", "tar") }
	for _, command := range commands {
		if runs(command, "mount") && !slices.ContainsFunc(commands, copies) {
			c.warn(command[0].line, "", "the mount hides the images in %s that the machine image brings, "+
				"such as the pause image; copy the folder first, or let first boot mount local disks: "+
				"localStorage of a NodeConfig, --local-disks of bootstrap.sh", imageFolder)
		}
	}
}

var flagLine = show.Regexp(`(?s)^--.`)

// continued reports a command that continues a line whose mark at the end has no effect, and
// a command whose first word continues one.
func (c *checker) continued(command []word, begins *regexp.Regexp, said, mark string) {
	if i := slices.IndexFunc(command, func(w word) bool { return w.blank }); i >= 0 {
		c.fail(command[i].line, "", spaceFollows, mark)
	} else if first := command[0]; begins.MatchString(first.text) {
		c.fail(first.line, "", said+mark, first.text)
	}
}

// write notes a file, or with more a text at its end.
func (c *checker) write(name, text string, at position, more bool) {
	if c.files == nil {
		c.files = map[string]*file{}
	}
	if f := c.files[name]; f != nil && more { // the lines no longer are those of the user data
		text, at = f.text+text, position{before: f.at.before, decoded: true}
	}
	c.files[name] = &file{text: text, at: at}
}

// run checks a file that user data writes and runs.
func (c *checker) run(f *file) int {
	if f.seen {
		return 0
	}
	f.seen = true
	return c.in(f.at).script(f.text)
}

// command checks a command. It returns the number of calls of bootstrap.sh.
func (c *checker) command(command []word) int {
	if script, shell := inline(command); shell != "" && c.depth < maxShells {
		c.depth++
		defer func() { c.depth-- }()
		return c.within(script.line-1).shell(script.text, shell)
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

var assignment = show.Regexp(`^[A-Za-z_][A-Za-z0-9_]*=`)

// runsOthers says whether a command's first word runs the words after it.
func runsOthers(first string) bool {
	return isShell(first) || slices.Contains(vocabulary().Runners, path.Base(first)) || assignment().MatchString(first)
}

func isShell(name string) bool {
	return slices.Contains(vocabulary().Shells, path.Base(name))
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

var commandFlag = show.Regexp(`^-[a-z]*c$`)

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
