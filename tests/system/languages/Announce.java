// PostgreSQL's JDBC driver. Arguments: the URL, the payload, statements with ? for it.
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;

class Announce {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            connection.setAutoCommit(false);
            for (int i = 2; i < arguments.length; i++) {
                try (PreparedStatement statement = connection.prepareStatement(arguments[i])) {
                    statement.setString(1, arguments[1]);
                    statement.execute();
                }
            }
            connection.commit();
        }
    }
}
