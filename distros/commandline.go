package distros

import "strings"

// Arguments is the placeholder in a CommandLine for the arguments, separated by
// blanks.
const Arguments = "{arguments}"

// CommandLine describes how kernel arguments are set permanently.
type CommandLine struct {
	// Name is the boot loader or its tool.
	Name string
	// File is written, with Arguments in its content. With Appended, the
	// content is a line at the end of an existing file. Without a path, Take
	// does everything.
	File     File
	Appended bool
	// Take is the command that makes the boot loader use the arguments; one of
	// its words may contain Arguments. Empty if the boot loader reads File
	// itself.
	Take []string
	// TakenFile or TakenBy is the file or the command that shows the arguments
	// in use.
	TakenFile string
	TakenBy   []string
	// Default is the command that makes the only kernel the default, on machines that have
	// the file or folder DefaultFor.
	Default    []string
	DefaultFor string
}

// With fills arguments into the file's content and the command.
func (c CommandLine) With(arguments []string) CommandLine {
	filled := fill([]string{c.File.Content}, Arguments, strings.Join(arguments, " "))
	c.File.Content, c.Take = filled[0], fill(c.Take, Arguments, strings.Join(arguments, " "))
	return c
}

const whyArguments = "kernel_arguments asks for them"

// GrubDropIn is for Debian and Ubuntu, whose GRUB reads a folder.
func GrubDropIn() CommandLine {
	return CommandLine{
		Name: "GRUB, /etc/default/grub.d",
		File: File{"/etc/default/grub.d/80-eksnode.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\"\n",
			whyArguments},
		Take: []string{"update-grub"}, TakenFile: "/boot/grub/grub.cfg",
		Default: []string{"update-grub"}, DefaultFor: "/boot/grub/grub.cfg",
	}
}

// GrubLine is a line at the end of /etc/default/grub, which is a shell script.
func GrubLine(mkconfig, config string) CommandLine {
	return CommandLine{
		Name: "GRUB, /etc/default/grub", Appended: true,
		File: File{"/etc/default/grub", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\" # eksnode\n",
			whyArguments},
		Take: []string{mkconfig, "-o", config}, TakenFile: config,
		Default: []string{mkconfig, "-o", config}, DefaultFor: config,
	}
}

// Grubby writes the entry of every kernel. Later kernels copy the arguments.
func Grubby() CommandLine {
	return CommandLine{
		Name: "grubby", Take: []string{"grubby", "--update-kernel=ALL", "--args={arguments}"},
		TakenBy: []string{"grubby", "--info=DEFAULT"},
		Default: []string{"grubby", "--set-default-index=0"}, DefaultFor: "/boot/loader/entries",
	}
}

// flatcarGrub: the system's grub.cfg reads the file of the OEM partition.
// https://www.flatcar.org/docs/latest/setup/customization/other-settings/
func flatcarGrub() CommandLine {
	return CommandLine{
		Name: "GRUB, /oem/grub.cfg", Appended: true,
		File: File{"/oem/grub.cfg", "set linux_append=\"$linux_append {arguments}\" # eksnode\n", whyArguments},
	}
}
