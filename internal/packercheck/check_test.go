package packercheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// found returns the mistakes of a template as LINE: RULE.
func found(t *testing.T, text string) []string {
	t.Helper()
	list, err := Check([]File{{"node.pkr.hcl", []byte(text)}})
	require.NoError(t, err)
	said := []string{}
	for _, f := range list {
		assert.Equal(t, "node.pkr.hcl", f.File)
		assert.NotEmpty(t, f.Text)
		assert.NotEmpty(t, f.Remedy)
		said = append(said, fmt.Sprintf("%d: %s", f.Line, f.Rule))
	}
	return said
}

// The names of the cases say what the template does; each case is a template and its
// mistakes.
func TestMistakesOfTemplates(t *testing.T) {
	const one = "build {\nsources = [\"null.x\"]\n" // the provisioners begin in line 3
	const two = "build {\nsources = [\"source.null.x\", \"null.y\"]\n"
	const node, scrubbed = "provisioner \"eksnode\" {}\n", "provisioner \"eksnode-scrub\" {}\n"
	reporting := func(kind, path string) string { return fmt.Sprintf("provisioner %q {\nreport = %s\n}\n", kind, path) }
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"the smallest build":                   {one + node + scrubbed + "}", nil},
		"a scrub alone":                        {one + scrubbed + "}", nil},
		"no scrub":                             {one + node + "}", []string{"3: no-scrub"}},
		"no scrub for one source":              {two + node + "provisioner \"eksnode-scrub\" {\nonly = [\"null.x\"]\n}\n}", []string{"3: no-scrub"}},
		"a scrub for sources of a variable":    {two + node + "provisioner \"eksnode-scrub\" {\nonly = var.only\n}\n}", nil},
		"a shell after the scrub":              {one + node + scrubbed + "provisioner \"shell\" {}\n}", []string{"5: after-scrub"}},
		"a shell of another source":            {two + node + "provisioner \"eksnode-scrub\" {\nonly = [\"null.x\"]\n}\nprovisioner \"shell\" {\nexcept = [\"null.x\"]\n}\n" + "provisioner \"eksnode-scrub\" {\nonly = [\"null.y\"]\n}\n}", nil},
		"eksnode after the scrub":              {one + scrubbed + node + "}", []string{"4: after-scrub"}},
		"a dynamic provisioner":                {one + node + scrubbed + "dynamic \"provisioner\" {\nfor_each = var.x\nlabels = [\"file\"]\ncontent {}\n}\n}", []string{"5: after-scrub"}},
		"the Packer host after the scrub":      {one + node + scrubbed + "provisioner \"shell-local\" {}\nprovisioner \"breakpoint\" {}\n}", nil},
		"an audit after the scrub":             {one + node + scrubbed + "provisioner \"eksnode-audit\" {}\n}", []string{"5: audit-after-scrub"}},
		"an audit alone":                       {one + "provisioner \"eksnode-audit\" {}\n}", nil},
		"two scrubs":                           {one + node + scrubbed + scrubbed + "}", []string{"5: two-scrubs"}},
		"two builds with a scrub each":         {one + node + scrubbed + "}\n" + one + node + scrubbed + "}", nil},
		"a report of two provisioners":         {one + reporting("eksnode", `"a.json"`) + reporting("eksnode-scrub", `"a.json"`) + "}", []string{"7: shared-report"}},
		"a report by variable, twice":          {one + reporting("eksnode", `"${var.r}/${source.name}"`) + reporting("eksnode-scrub", `"${var.r}/${source.name}"`) + "}", []string{"7: shared-report"}},
		"a report of two sources":              {two + reporting("eksnode-scrub", `"${build.name}.json"`) + "}", []string{"4: shared-report"}},
		"a report for each source":             {two + reporting("eksnode-scrub", `"${source.name}.json"`) + "}", nil},
		"a report for each machine":            {two + reporting("eksnode-scrub", `"${build.ID}.json"`) + "}", nil},
		"a report of two builds":               {one + reporting("eksnode-scrub", `"a"`) + "}\n" + strings.ReplaceAll(one, "null.x", "null.y") + reporting("eksnode-scrub", `"a"`) + "}", []string{"10: shared-report"}},
		"another plugin's report":              {one + reporting("other", `"a"`) + reporting("eksnode-scrub", `"a"`) + "}", nil},
		"no communicator":                      {"source \"null\" \"x\" {\ncommunicator = \"none\"\n}\n" + one + scrubbed + "}", []string{"2: no-communicator"}},
		"no communicator, set in the build":    {"build {\nsource \"null.x\" {\ncommunicator = \"none\"\n}\n" + scrubbed + "}", []string{"3: no-communicator"}},
		"no communicator and no provisioner":   {"source \"null\" \"x\" {\ncommunicator = \"none\"\n}\n" + one + "post-processor \"eksnode-ami\" {}\n}", nil},
		"a terminal":                           {"source \"null\" \"x\" {\nssh_pty = \"true\"\n}\n" + one + scrubbed + "}", []string{"2: terminal"}},
		"sudo after the scrub":                 {"source \"qemu\" \"x\" {\nshutdown_command = \"sudo poweroff\"\n}\n" + strings.ReplaceAll(one, "null", "qemu") + scrubbed + "}", []string{"2: shutdown-command"}},
		"qemu without a way to stop":           {"source \"qemu\" \"x\" {}\n" + strings.ReplaceAll(one, "null", "qemu") + scrubbed + "}", []string{"1: shutdown-command"}},
		"qemu that powers off":                 {"source \"qemu\" \"x\" {\nshutdown_command = var.c\n}\n" + strings.ReplaceAll(one, "null", "qemu") + scrubbed + "}", nil},
		"retries with a timeout":               {one + "provisioner \"eksnode-scrub\" {\ntimeout = \"1h\"\nmax_retries = 2\n}\n}", []string{"5: retries-with-timeout"}},
		"an AMI without tags":                  {"source \"amazon-ebs\" \"x\" {}\n" + strings.ReplaceAll(one, "null", "amazon-ebs") + scrubbed + "}", []string{"1: no-tags"}},
		"an AMI with other tags":               {"source \"amazon-ebs\" \"x\" {\ntags = { team = \"a\" }\n}\n" + strings.ReplaceAll(one, "null", "amazon-ebs") + scrubbed + "}", []string{"2: no-tags"}},
		"an AMI with tags of a variable":       {"source \"amazon-ebs\" \"x\" {\ntags = var.tags\n}\n" + strings.ReplaceAll(one, "null", "amazon-ebs") + scrubbed + "}", nil},
		"an AMI with the tag":                  {"source \"amazon-ebs\" \"x\" {\ntags = { \"eksnode:kubernetes-version\" = var.v }\n}\n" + strings.ReplaceAll(one, "null", "amazon-ebs") + scrubbed + "}", nil},
		"an AMI with tag blocks":               {"source \"amazon-ebs\" \"x\" {\ntag {}\n}\n" + strings.ReplaceAll(one, "null", "amazon-ebs") + scrubbed + "}", nil},
		"publishing a disk":                    {one + "post-processor \"eksnode-ami\" {}\npost-processor \"eksnode-publish\" {}\n}", []string{"4: publish-without-ami"}},
		"publishing before the import":         {one + "post-processors {\npost-processor \"eksnode-publish\" {}\npost-processor \"eksnode-ami\" {}\n}\n}", []string{"4: publish-without-ami"}},
		"publishing after the import":          {one + "post-processors {\npost-processor \"eksnode-ami\" {}\npost-processor \"eksnode-publish\" {}\n}\n}", nil},
		"publishing an AMI":                    {strings.ReplaceAll(one, "null", "amazon-ebs") + "post-processor \"eksnode-publish\" {}\n}", nil},
		"sources of a local":                   {"build {\nsources = local.all\n" + node + scrubbed + "provisioner \"shell\" {}\n}", []string{"5: after-scrub"}},
		"a source with a name of its own":      {"build {\nsource \"null.x\" {\nname = \"own\"\n}\n" + node + scrubbed + "provisioner \"shell\" {\nonly = [\"null.own\"]\n}\n}", []string{"7: after-scrub"}},
		"dynamic sources with a name for each": {"build {\ndynamic \"source\" {\nfor_each = local.all\nlabels = [\"null.x\"]\ncontent {\nname = source.key\n}\n}\n" + scrubbed + "provisioner \"shell\" {\nonly = [\"null.x\"]\n}\n}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == nil {
				c.want = []string{}
			}
			assert.Equal(t, c.want, found(t, c.text), c.text)
		})
	}
}

// A source may be in another file than the build, and a template may be JSON.
func TestFilesOfATemplateAreOne(t *testing.T) {
	list, err := Check([]File{
		{"build.pkr.json", []byte(`{"build": {"sources": ["null.x"], "provisioner": [{"eksnode-scrub": {}}, {"shell": {}}]}}`)},
		{"source.pkr.hcl", []byte("source \"null\" \"x\" {\ncommunicator = \"none\"\n}\n")},
	})
	require.NoError(t, err)
	require.Len(t, list, 2)
	assert.Equal(t, "after-scrub", list[0].Rule)
	assert.Equal(t, "build.pkr.json", list[0].File)
	assert.Equal(t, Finding{Rule: "no-communicator", File: "source.pkr.hcl", Line: 2,
		Text: `with communicator = "none" no command runs, and Packer reports success`, Remedy: "set another communicator, such as ssh"}, list[1])
}

func TestWhatCannotBeCheckedIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no build has a component of eksnode",
		"build {\nsources = []\n}":          "no build has a component of eksnode",
		"build {\n":                         "node.pkr.hcl:1: Unclosed configuration block",
		"build {\nprovisioner {}\n}":        "node.pkr.hcl:2: Missing type for provisioner",
		"source \"null\" {}\n":              "node.pkr.hcl:1: Missing name for source",
		strings.Repeat("#\n", 200<<10):      "node.pkr.hcl is larger than 256 KiB",
		"x = " + strings.Repeat("[", 1<<16): "node.pkr.hcl has 65536 brackets and operators",
	} {
		_, err := Check([]File{{"node.pkr.hcl", []byte(text)}})
		assert.ErrorContains(t, err, want, "%.40s", text)
	}
}

// Nesting as deep as the limit allows ends in an error or in no findings, not in a
// crash.
func FuzzCheck(f *testing.F) {
	f.Add([]byte("x = " + strings.Repeat("[", 9_999)))
	f.Add([]byte("x = " + strings.Repeat("!", 1<<17)))
	f.Add([]byte("build {\n" + strings.Repeat("post-processors {\n", 1<<10)))
	f.Add([]byte("build {\ndynamic \"source\" {\nlabels = [null]\ncontent {}\n}\nprovisioner \"eksnode\" {\nreport = null\nonly = [1]\n}\n}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Check([]File{{"x.pkr.hcl", text}})
		for _, found := range list {
			assert.Positive(t, found.Line)
		}
		if err != nil {
			assert.Empty(t, list)
		}
	})
}
