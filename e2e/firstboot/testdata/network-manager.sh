export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -yq --no-install-recommends network-manager
systemctl start NetworkManager
nmcli connection add type ethernet con-name primary ifname %[1]s 802-3-ethernet.mac-address %[2]s ipv4.method auto ipv6.method disabled
systemctl stop systemd-networkd.socket systemd-networkd
nmcli connection up primary
ip route get %[3]s | grep -w "dev %[1]s"
nmcli --terse --fields DEVICE,STATE,CONNECTION device | grep -x "%[1]s:connected:primary"
