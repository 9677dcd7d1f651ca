// Package kills proves that a killed eksnode loses nothing. SIGKILL ends a
// provision, a scrub and a first boot at random points, on machines with a real
// systemd, apt and containerd. Each command then runs again to its end. The
// machine must then equal a machine with an undisturbed run:
//
//	go test -count=1 -tags e2e ./e2e/kills -kills 100 -timeout 45m -v
//
// To repeat a round, pass its name and the seed at the beginning of the log:
//
//	go test -count=1 -tags e2e ./e2e/kills -seed 1 -run TestKills/scrub/rounds/round_17
package kills
