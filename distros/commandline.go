package distros

// Arguments stands, in a CommandLine, for the arguments with blanks between.
const Arguments = "{arguments}"

// CommandLine is how arguments get onto the kernel's command line for good.
type CommandLine struct {
	// Name says whose way it is.
	Name string
	// File is what is written, with Arguments in its content. With Appended it
	// is a line at the end of a file that others wrote. An empty path says that
	// Take does all.
	File     File
	Appended bool
	// Take is the command that makes the boot loader take them up, with
	// Arguments in one of its words or not; empty where it reads File itself.
	Take []string
	// Taken is the file, or the command, that shows what was taken up.
	TakenFile string
	TakenBy   []string
}

const whyArguments = "kernel_arguments asks for them"

// grubDropIn is that of Debian and Ubuntu, whose GRUB reads a folder.
func grubDropIn() CommandLine {
	return CommandLine{
		Name: "GRUB, /etc/default/grub.d",
		File: File{"/etc/default/grub.d/80-eksnode.cfg", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\"\n", whyArguments},
		Take: []string{"update-grub"}, TakenFile: "/boot/grub/grub.cfg",
	}
}

// grubLine is a line at the end of /etc/default/grub, which is a shell script.
func grubLine(mkconfig, config string) CommandLine {
	return CommandLine{
		Name: "GRUB, /etc/default/grub", Appended: true,
		File: File{"/etc/default/grub", "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\" # eksnode\n", whyArguments},
		Take: []string{mkconfig, "-o", config}, TakenFile: config,
	}
}

// grubby writes every kernel's entry, and later kernels take theirs from it.
func grubby() CommandLine {
	return CommandLine{
		Name: "grubby", Take: []string{"grubby", "--update-kernel=ALL", "--args={arguments}"},
		TakenBy: []string{"grubby", "--info=DEFAULT"},
	}
}

// flatcarGrub: the system's grub.cfg reads that of the OEM partition.
// https://www.flatcar.org/docs/latest/setup/customization/other-settings/
func flatcarGrub() CommandLine {
	return CommandLine{
		Name: "GRUB, /oem/grub.cfg", Appended: true,
		File: File{"/oem/grub.cfg", "set linux_append=\"$linux_append {arguments}\" # eksnode\n", whyArguments},
	}
}
