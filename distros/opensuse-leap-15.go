package distros

func openSUSELeap15() Distro {
	d := leap(suse15("opensuse-leap-15", "openSUSE Leap 15"), "15.6",
		"openSUSE-Leap-15.6-Minimal-VM.{arch}-Cloud.qcow2")
	d.Differs = "wicked configures interfaces, and AppArmor confines processes. Leap 16 uses NetworkManager " +
		"and SELinux."
	return d
}
