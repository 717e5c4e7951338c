"""What a gateway can offer: collected from plugins, admitted, kept in snapshots."""
